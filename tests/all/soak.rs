//! What the soak rests on: its Redis must not depend on what else runs on the machine.
#![allow(dead_code, reason = "the soak uses the rest")]

#[path = "../../examples/soak/redis.rs"]
mod redis;

use std::time::Duration;

use self::redis::{Mishap, Redis};

#[test]
fn the_redis_of_a_chapter_has_no_port_that_another_process_could_take_while_it_is_down() {
    let mut server = Redis::start().unwrap();
    let url = server.url();
    let ask = |what: &[&str]| -> Vec<String> {
        let mut connection = ::redis::Client::open(&*url)
            .unwrap()
            .get_connection()
            .unwrap();
        ::redis::cmd(what[0])
            .arg(&what[1..])
            .query(&mut connection)
            .unwrap()
    };
    assert_eq!(ask(&["CONFIG", "GET", "port"]), ["port", "0"]);
    server.suffer(Mishap::Restart, Duration::from_millis(10), 0);
    assert_eq!(ask(&["CONFIG", "GET", "port"]), ["port", "0"]);
}
