//! Rows that are alike, as one row.

use ingest_quota::Cost;

/// What is alike.
pub struct Group<'a, T> {
    pub first: &'a T,
    /// All of them, the first one too.
    pub all: Vec<&'a T>,
}

impl<T> Group<'_, T> {
    /// The sum of a number of each.
    pub fn sum(&self, number: impl Fn(&T) -> u64) -> u64 {
        self.all.iter().map(|one| number(one)).sum()
    }

    /// The sum of a cost of each.
    pub fn cost(&self, cost: impl Fn(&T) -> Cost) -> Cost {
        let mut sum = Cost::none();
        self.all.iter().for_each(|one| sum.add(&cost(one)));
        sum
    }
}

/// Puts together what is like the first of a group, in the order of the first ones.
pub fn grouped<'a, T>(
    all: impl IntoIterator<Item = &'a T>,
    alike: impl Fn(&T, &T) -> bool,
) -> Vec<Group<'a, T>> {
    let mut groups: Vec<Group<'a, T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| alike(group.first, one)) {
            Some(group) => group.all.push(one),
            None => groups.push(Group {
                first: one,
                all: vec![one],
            }),
        }
    }
    groups
}
