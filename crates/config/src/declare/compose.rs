//! Types that are made of others.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::json;

use super::{Key, Keys, Need, Part, Shape, Type, name, object};
use crate::item::{self, Item};
use crate::names::{advice, choice, closest};
use crate::tree::{Node, Origin};

/// A table of these keys and no others.
pub struct Table<K>(PhantomData<K>);

pub const fn table<K: Keys>() -> Table<K> {
    Table(PhantomData)
}

impl<K: Keys> Type for Table<K> {
    type Value = K;

    fn read(&self, item: Item<'_>) -> Option<K> {
        K::read(&item.table(&K::names())?)
    }

    fn shape(&self) -> Shape {
        Shape::table(K::keys())
    }
}

/// A list; the number is the fewest values that it may have.
pub struct ListOf<T>(pub T, pub usize);

impl<T: Type> Type for ListOf<T> {
    type Value = Vec<T::Value>;

    fn read(&self, item: Item<'_>) -> Option<Self::Value> {
        let elements = item.list()?;
        if elements.len() < self.1 {
            return item.refuse(
                format!("expected at least {} values", self.1),
                "add values, or remove the key",
            );
        }
        item::all(elements.into_iter().map(|element| self.0.read(element)))
    }

    fn shape(&self) -> Shape {
        let shape = self.0.shape();
        let mut schema = json!({ "type": "array", "items": shape.schema });
        if self.1 > 0
            && let Some(members) = schema.as_object_mut()
        {
            members.insert("minItems".to_owned(), json!(self.1));
        }
        Shape {
            label: format!("list of: {}", shape.label),
            schema,
            ..shape.below("[]")
        }
    }
}

/// One value, or several in a list.
pub struct OneOrMore<T>(pub T);

impl<T: Type> Type for OneOrMore<T> {
    type Value = Vec<T::Value>;

    fn read(&self, item: Item<'_>) -> Option<Self::Value> {
        let elements = item.one_or_more()?;
        item::all(elements.into_iter().map(|element| self.0.read(element)))
    }

    fn shape(&self) -> Shape {
        let shape = self.0.shape();
        let list = json!({ "type": "array", "items": shape.schema, "minItems": 1 });
        Shape {
            label: format!("{}, or list of them", shape.label),
            schema: json!({ "anyOf": [shape.schema, list] }),
            ..shape
        }
    }
}

/// A table whose keys are names that the file chooses. The text is what the manual calls such a name.
pub struct Named<T>(pub T, pub &'static str);

impl<T: Type> Type for Named<T> {
    type Value = BTreeMap<String, T::Value>;

    fn read(&self, item: Item<'_>) -> Option<Self::Value> {
        item::all(item.entries()?.into_iter().map(|entry| {
            name(&entry)?;
            Some((entry.name().to_owned(), self.0.read(entry)?))
        }))
    }

    fn shape(&self) -> Shape {
        self.0.shape().named(self.1)
    }
}

/// One of some words: each with its meaning and its documentation.
pub struct Words<T: 'static>(pub &'static [(&'static str, T, &'static str)]);

impl<T: Copy> Type for Words<T> {
    type Value = T;

    fn read(&self, item: Item<'_>) -> Option<T> {
        let text = item.text()?;
        let found = self.0.iter().find(|(word, ..)| *word == text);
        found.map(|(_, meaning, _)| *meaning).or_else(|| {
            let words: Vec<_> = self.0.iter().map(|(word, ..)| *word).collect();
            let instead = match closest(text, &words) {
                None if words.len() > 1 => "write one of these".to_owned(),
                _ => advice(text, words.iter().copied()),
            };
            item.refuse(format!("expected {}", choice(&words)), instead)
        })
    }

    fn shape(&self) -> Shape {
        Shape::words(self.0.iter().map(|(word, _, doc)| (*word, *doc)).collect())
    }
}

/// A type whose value is checked further, or becomes something else.
pub struct AndThen<T: Type, U>(pub T, pub fn(&Item<'_>, T::Value) -> Option<U>);

impl<T: Type, U> Type for AndThen<T, U> {
    type Value = U;

    fn read(&self, item: Item<'_>) -> Option<U> {
        let value = self.0.read(item.clone())?;
        (self.1)(&item, value)
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// A table that has exactly one of its keys. The text tells what to write instead.
pub struct ExactlyOne<K>(pub Table<K>, pub &'static str);

impl<K: Keys> Type for ExactlyOne<K> {
    type Value = K;

    fn read(&self, item: Item<'_>) -> Option<K> {
        let present = item.clone().table(&K::names())?.entries()?.len();
        if present == 1 {
            return self.0.read(item);
        }
        let names = K::names().join(", ");
        item.refuse(format!("expected exactly one of {names}"), self.1)
    }

    fn shape(&self) -> Shape {
        self.0
            .shape()
            .with("minProperties", 1)
            .with("maxProperties", 1)
    }
}

/// A table whose key `kind` decides which other keys it has.
pub struct Tagged<T: 'static>(pub &'static [Kind<T>]);

/// One of these kinds.
pub struct Kind<T> {
    pub name: &'static str,
    pub doc: &'static str,
    pub keys: fn() -> Vec<Key>,
    pub names: fn() -> Vec<&'static str>,
    pub read: fn(&Item<'_>) -> Option<T>,
}

impl<T> Kind<T> {
    /// A kind with the keys of a table that `keys!` declares.
    pub const fn read_from<K: Keys>(
        name: &'static str,
        doc: &'static str,
        read: fn(&Item<'_>) -> Option<T>,
    ) -> Self {
        Self {
            name,
            doc,
            keys: K::keys,
            names: K::names,
            read,
        }
    }
}

impl<T> Type for Tagged<T> {
    type Value = T;

    fn read(&self, item: Item<'_>) -> Option<T> {
        let kinds: Vec<_> = self.0.iter().map(|kind| kind.name).collect();
        let Some(tag) = item.find(&["kind"]) else {
            // What is no table is reported as that, and not as a table without a kind.
            item.entries()?;
            let (first, others) = kinds.split_first()?;
            return item.lacks(
                "kind",
                &format!("{first:?} (or one of {})", others.join(", ")),
            );
        };
        let text = tag.text()?;
        let Some(kind) = self.0.iter().find(|kind| kind.name == text) else {
            return tag.refuse("unknown kind", advice(text, kinds));
        };
        let names = [vec!["kind"], (kind.names)()].concat();
        (kind.read)(&item.table(&names)?)
    }

    fn shape(&self) -> Shape {
        let words = self.0.iter().map(|kind| (kind.name, kind.doc)).collect();
        let tables = self.0.iter().map(|kind| {
            let keys: Vec<Key> = std::iter::once(tag(kind)).chain((kind.keys)()).collect();
            let part = Part {
                path: format!(" with kind = \"{}\"", kind.name),
                doc: kind.doc.to_owned(),
                keys: keys.iter().skip(1).cloned().collect(),
            };
            (object(&keys), part)
        });
        let (schemas, parts): (Vec<_>, Vec<_>) = tables.unzip();
        Shape {
            label: "table with a `kind`".to_owned(),
            schema: json!({ "anyOf": schemas }),
            parts,
            words,
        }
    }
}

fn tag<T>(kind: &Kind<T>) -> Key {
    Key {
        name: "kind",
        doc: kind.doc.to_owned(),
        need: Need::Required,
        example: Node::of_set(&format!("{:?}", kind.name), &Origin::Line(0)),
        shape: Shape::scalar("string", json!({ "const": kind.name })),
    }
}

/// A value that is read after others, since it names them. Its type describes it.
pub struct Later<T>(pub T);

/// Where such a value is.
pub struct Place(Vec<String>);

impl Place {
    /// The value in its document.
    pub fn item<'a>(&self, root: &Item<'a>) -> Option<Item<'a>> {
        let path: Vec<_> = self.0.iter().map(String::as_str).collect();
        root.find(&path)
    }
}

impl<T: Type> Type for Later<T> {
    type Value = Place;

    fn read(&self, item: Item<'_>) -> Option<Place> {
        Some(Place(item.path()))
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}
