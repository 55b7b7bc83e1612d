use ingest_catalog::{Lease, Leases, Resource, Taken};

use super::Catalog;

fn us() -> Resource {
    Resource::region("trending", "US")
}

async fn take(leases: &dyn Leases, resource: &Resource) -> Option<Lease> {
    match leases.take(resource).await.unwrap() {
        Taken::Granted(lease) => Some(lease),
        Taken::Held(_) => None,
    }
}

pub(crate) async fn a_resource_has_one_holder_at_a_time(f: Catalog) {
    let other = f.another();
    let lease = take(&*f.leases, &us()).await;
    assert!(lease.is_some());
    assert!(take(&*other.leases, &us()).await.is_none());
    assert!(
        take(&*f.leases, &us()).await.is_none(),
        "nor twice in one process"
    );
    let trusted = f.leases.trusted_until(&us());
    assert!(trusted.is_none_or(|until| !until.is_past()));
    drop(lease);
    f.leases.close().await;
    assert!(take(&*other.leases, &us()).await.is_some());
}

pub(crate) async fn of_several_that_take_a_new_resource_at_once_one_gets_it(f: Catalog) {
    let others = [f.another(), f.another(), f.another()];
    for number in 0..100 {
        let resource = Resource::region("trending", &number.to_string());
        let (a, b, c, d) = tokio::join!(
            take(&*f.leases, &resource),
            take(&*others[0].leases, &resource),
            take(&*others[1].leases, &resource),
            take(&*others[2].leases, &resource),
        );
        let granted = [a, b, c, d].into_iter().flatten().count();
        assert_eq!(granted, 1, "{resource}");
    }
}

pub(crate) async fn a_held_resource_names_its_holder(f: Catalog) {
    let other = f.another();
    let _lease = take(&*f.leases, &us()).await.unwrap();
    let Taken::Held(Some(holder)) = other.leases.take(&us()).await.unwrap() else {
        panic!("it is held, and by a process that wrote its name");
    };
    assert_eq!(holder.process, std::process::id());
    assert!(!holder.machine.is_empty());
}

pub(crate) async fn regions_jobs_and_ids_are_taken_apart(f: Catalog) {
    let resources = [
        us(),
        Resource::region("trending", "*"),
        Resource::region("another", "US"),
        Resource::region("trending.US", ""),
        Resource::region("trending", &"x".repeat(400)),
        Resource::region("trending", &"x".repeat(401)),
        Resource::ids("trending", "US"),
        Resource::ids("youtube", "channel"),
        Resource::ids("youtube", "video"),
        Resource::region("../../etc", "\0"),
    ];
    let mut held = Vec::new();
    for resource in &resources {
        held.push(take(&*f.leases, resource).await.expect("nobody holds it"));
    }
    for resource in &resources {
        assert!(take(&*f.leases, resource).await.is_none(), "{resource}");
    }
}
