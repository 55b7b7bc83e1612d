//! The things of the invented world. An id contains what the thing is, so nothing is stored, and an id of another world
//! names nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::chance::{Chance, mix, unmix};

/// A class of things: how their ids look, and how many of them own the things of other classes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Its name; another class of the same name is the same things under other ids. By default its key in the shape file.
    #[serde(rename = "as")]
    pub name: String,
    /// How its ids begin.
    pub prefix: String,
    /// How many bytes an id encodes; at least 8.
    pub bytes: usize,
    /// How many of these own the things of a list of all regions, of a region's list, and of any other list.
    pub owners: Option<[u64; 3]>,
}

/// A list of things: 21 bits, of which the lower 10 are the region. 0 is the list that all regions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThingList(u32);

/// One thing: its list, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thing {
    pub list: ThingList,
    number: u32,
}

const REGION_BITS: u32 = 10;
const TOPICS: u64 = 1 << 11;
const NUMBER_BITS: u32 = 17;
const CHECK_BITS: u32 = 26;
/// No list is longer: a number has 17 bits.
pub const LONGEST: u64 = 100_000;

impl ThingList {
    pub const SHARED: Self = Self(0);

    /// The list of a region and a question; without a question it is the region's chart.
    pub fn new(region: u32, question: Option<&str>, world: Chance) -> Self {
        let topic = question.map_or(0, |text| {
            1 + world.of("topic").of(text).below(TOPICS.saturating_sub(1))
        });
        let topic = u32::try_from(topic).unwrap_or_default();
        Self(region | (topic << REGION_BITS))
    }

    /// Any list but the shared one, by its name.
    pub fn named(name: &str, world: Chance) -> Self {
        let most = (TOPICS << REGION_BITS).saturating_sub(1);
        Self(u32::try_from(1 + world.of("list").of(name).below(most)).unwrap_or(1))
    }

    const fn region(self) -> u32 {
        self.0 & ((1 << REGION_BITS) - 1)
    }

    /// 0 for the list of all regions, 1 for a region's chart, 2 for any other.
    const fn rank(self) -> usize {
        match (self.region(), self.0 >> REGION_BITS) {
            (0, 0) => 0,
            (_, 0) => 1,
            _ => 2,
        }
    }

    /// The code of its region, where it has one.
    pub fn country(self) -> Option<String> {
        let number = self.region().checked_sub(1)?;
        let letter = |number| char::from_digit(number + 10, 36).map(|c| c.to_ascii_uppercase());
        Some(
            [letter(number / 26)?, letter(number % 26)?]
                .iter()
                .collect(),
        )
    }

    /// Its first things.
    pub fn things(self, count: u64) -> impl Iterator<Item = Thing> {
        let count = u32::try_from(count.min(LONGEST)).unwrap_or_default();
        (0..count).map(move |number| Thing { list: self, number })
    }
}

/// The number of a region's code; `None` for what is no country's code.
pub fn region_number(code: &str) -> Option<u32> {
    let [first, second] = code.as_bytes() else {
        return None;
    };
    let number = |letter: &u8| {
        let is_letter = letter.is_ascii_uppercase();
        is_letter.then(|| u32::from(letter.wrapping_sub(b'A')))
    };
    let number = number(first)? * 26 + number(second)? + 1;
    // ISO 3166 leaves these to users: no country has them, so a request for one finds no region.
    (!matches!(code, "XX" | "ZZ")).then_some(number)
}

impl Thing {
    /// Its id in this world.
    pub fn id(self, class: &Class, world: Chance) -> String {
        let bits = self.bits(class, world);
        let words = (0..).map(|part: u64| match part {
            0 => bits,
            part => mix(bits ^ mix(part)),
        });
        let bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).take(class.bytes).collect();
        format!("{}{}", class.prefix, URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The thing of this id; `None` where this world has none.
    pub fn find(class: &Class, id: &str, world: Chance) -> Option<Self> {
        let encoded = id.strip_prefix(class.prefix.as_str())?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (bits, _) = bytes.split_first_chunk::<8>()?;
        let unmixed = unmix(u64::from_be_bytes(*bits)) ^ world.of(&class.name).bits();
        let thing = Self::from_bits(unmixed >> CHECK_BITS);
        // The check bits are right only if it has this very id again.
        (thing.id(class, world) == id).then_some(thing)
    }

    /// A thing that stands for an id of a class whose ids are any text.
    pub fn of_any_id(id: &str, world: Chance) -> Self {
        Self::from_bits(world.of("id").of(id).bits() >> CHECK_BITS)
    }

    /// What is drawn about it.
    pub fn chance(self, class: &Class, world: Chance) -> Chance {
        world.of("thing").of(&class.name).nth(self.to_bits())
    }

    /// The thing of another class that owns it, where that class has owners; otherwise the one that belongs to it.
    pub fn related(self, class: &Class, other: &Class, world: Chance) -> Self {
        let rank = self.list.rank();
        let count = other.owners.and_then(|owners| owners.get(rank).copied());
        match count.filter(|_| class.name != other.name) {
            Some(count) => Self {
                list: ThingList(self.list.region()),
                number: u32::try_from(self.chance(class, world).of("owner").below(count))
                    .unwrap_or_default(),
            },
            None => self,
        }
    }

    pub const fn number(self) -> u32 {
        self.number
    }

    fn to_bits(self) -> u64 {
        (u64::from(self.list.0) << NUMBER_BITS) | u64::from(self.number)
    }

    fn from_bits(bits: u64) -> Self {
        let part = |bits: u64| u32::try_from(bits).unwrap_or_default();
        Self {
            list: ThingList(part(bits >> NUMBER_BITS)),
            number: part(bits & ((1 << NUMBER_BITS) - 1)),
        }
    }

    fn bits(self, class: &Class, world: Chance) -> u64 {
        let world = world.of(&class.name);
        let check = world.of("check").nth(self.to_bits()).bits() >> (64 - CHECK_BITS);
        mix(((self.to_bits() << CHECK_BITS) | check) ^ world.bits())
    }
}
