//! Whether a key must be present, and what its absence means.

use std::marker::PhantomData;

use super::{Key, Keys, Need, Type};
use crate::item::Item;
use crate::tree::{Node, Origin};

/// One line of a `keys!`.
pub trait Presence {
    type Value;

    fn read(&self, section: &Item<'_>, name: &'static str) -> Option<Self::Value>;

    fn keys(&self, name: &'static str, doc: &'static str) -> Vec<Key>;

    fn names(&self, name: &'static str) -> Vec<&'static str> {
        vec![name]
    }
}

/// A key that must be present: its type and an example.
pub struct Required<T>(pub T, pub &'static str);

/// A key that may be absent: its type and an example.
pub struct Optional<T>(pub T, pub &'static str);

/// A key with a default: its type, the default and an example.
pub struct Or<T>(pub T, pub &'static str, pub &'static str);

/// Not a key: the name of the table itself.
pub struct OwnName;

/// The keys of another table, which are keys of this one too.
pub struct Flat<K>(PhantomData<K>);

/// The same; `None` where none of these keys is present.
pub struct FlatOptional<K>(PhantomData<K>);

impl<T: Type> Presence for Required<T> {
    type Value = T::Value;

    fn read(&self, section: &Item<'_>, name: &'static str) -> Option<T::Value> {
        match section.find(&[name]) {
            Some(item) => self.0.read(item),
            None => section.lacks(name, &quoted(self.1)),
        }
    }

    fn keys(&self, name: &'static str, doc: &'static str) -> Vec<Key> {
        key(name, doc, Need::Required, self.1, &self.0)
    }
}

impl<T: Type> Presence for Optional<T> {
    type Value = Option<T::Value>;

    fn read(&self, section: &Item<'_>, name: &'static str) -> Option<Self::Value> {
        section
            .find(&[name])
            .map_or(Some(None), |item| self.0.read(item).map(Some))
    }

    fn keys(&self, name: &'static str, doc: &'static str) -> Vec<Key> {
        key(name, doc, Need::Optional, self.1, &self.0)
    }
}

impl<T: Type> Presence for Or<T> {
    type Value = T::Value;

    fn read(&self, section: &Item<'_>, name: &'static str) -> Option<T::Value> {
        match section.find(&[name]) {
            Some(item) => self.0.read(item),
            None => self.0.read(section.default_document(toml(self.1)).item()),
        }
    }

    fn keys(&self, name: &'static str, doc: &'static str) -> Vec<Key> {
        key(name, doc, Need::Default(toml(self.1)), self.2, &self.0)
    }
}

impl Presence for OwnName {
    type Value = String;

    fn read(&self, section: &Item<'_>, _: &'static str) -> Option<String> {
        Some(section.name().to_owned())
    }

    fn keys(&self, _: &'static str, _: &'static str) -> Vec<Key> {
        Vec::new()
    }

    fn names(&self, _: &'static str) -> Vec<&'static str> {
        Vec::new()
    }
}

impl<K> Flat<K> {
    pub const NEW: Self = Self(PhantomData);
}

impl<K: Keys> Presence for Flat<K> {
    type Value = K;

    fn read(&self, section: &Item<'_>, _: &'static str) -> Option<K> {
        K::read(section)
    }

    fn keys(&self, _: &'static str, _: &'static str) -> Vec<Key> {
        K::keys()
    }

    fn names(&self, _: &'static str) -> Vec<&'static str> {
        K::names()
    }
}

impl<K> FlatOptional<K> {
    pub const NEW: Self = Self(PhantomData);
}

impl<K: Keys> Presence for FlatOptional<K> {
    type Value = Option<K>;

    fn read(&self, section: &Item<'_>, _: &'static str) -> Option<Option<K>> {
        if K::names()
            .iter()
            .any(|name| section.find(&[name]).is_some())
        {
            return K::read(section).map(Some);
        }
        Some(None)
    }

    fn keys(&self, _: &'static str, _: &'static str) -> Vec<Key> {
        let optional = |key: Key| match key.need {
            Need::Required => Key {
                need: Need::Optional,
                ..key
            },
            Need::Default(_) | Need::Optional => key,
        };
        K::keys().into_iter().map(optional).collect()
    }

    fn names(&self, _: &'static str) -> Vec<&'static str> {
        K::names()
    }
}

fn key(
    name: &'static str,
    doc: &'static str,
    need: Need,
    example: &str,
    of: &impl Type,
) -> Vec<Key> {
    vec![Key {
        name,
        doc: doc.trim().to_owned(),
        need,
        example: toml(example),
        shape: of.shape(),
    }]
}

/// A default or an example with TOML's usual quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "\"")
}

fn toml(text: &str) -> Node {
    Node::of_set(&quoted(text), &Origin::Line(0))
}

/// No keys at all.
impl Keys for () {
    fn keys() -> Vec<Key> {
        Vec::new()
    }

    fn names() -> Vec<&'static str> {
        Vec::new()
    }

    fn read(_: &Item<'_>) -> Option<Self> {
        Some(())
    }
}
