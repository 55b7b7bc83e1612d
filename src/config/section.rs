use super::item::Item;

/// A table whose keys are known.
pub struct Section<'a>(pub Item<'a>);

impl<'a> Section<'a> {
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        self.0.find(&[key])
    }

    /// The value of a key that must be there; `example` is what to write where it is not.
    pub fn required<T>(
        &self,
        key: &str,
        example: &str,
        read: impl FnOnce(Item<'a>) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(item) => read(item),
            None => self.0.lacks(key, example),
        }
    }

    /// The value of a key that may be missing: `Some(None)` where it is.
    pub fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(Item<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        self.get(key)
            .map_or(Some(None), |item| read(item).map(Some))
    }

    /// The value of a key, or what it is where it is missing.
    pub fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(Item<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).map_or(Some(default), read)
    }
}
