//! Invented texts, in scripts of the world.

use super::chance::Chance;

/// A script, with how its words are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Script {
    #[default]
    Latin,
    German,
    French,
    Portuguese,
    Cyrillic,
    Arabic,
    Hindi,
    Japanese,
    Korean,
    Thai,
}

const ALL: [Script; 10] = [
    Script::Latin,
    Script::German,
    Script::French,
    Script::Portuguese,
    Script::Cyrillic,
    Script::Arabic,
    Script::Hindi,
    Script::Japanese,
    Script::Korean,
    Script::Thai,
];

impl Script {
    /// What is mostly written in a region; any script for what belongs to none.
    pub fn of(region: Option<&str>, chance: Chance) -> Self {
        let elsewhere = chance.of("script").pick(&ALL);
        match region {
            _ if chance.of("abroad").percent(15) => elsewhere,
            Some("US" | "GB" | "AU" | "CA" | "IE" | "NZ") => Self::Latin,
            Some("DE" | "AT" | "CH") => Self::German,
            Some("FR" | "BE") => Self::French,
            Some("BR" | "PT") => Self::Portuguese,
            Some("RU" | "UA" | "BG" | "KZ" | "RS") => Self::Cyrillic,
            Some("EG" | "SA" | "AE" | "MA" | "IQ" | "DZ") => Self::Arabic,
            Some("IN" | "NP") => Self::Hindi,
            Some("JP") => Self::Japanese,
            Some("KR") => Self::Korean,
            Some("TH") => Self::Thai,
            _ => elsewhere,
        }
    }

    /// The language that stands for it.
    pub const fn language(self) -> &'static str {
        match self {
            Self::Latin => "en",
            Self::German => "de",
            Self::French => "fr",
            Self::Portuguese => "pt-BR",
            Self::Cyrillic => "ru",
            Self::Arabic => "ar",
            Self::Hindi => "hi",
            Self::Japanese => "ja",
            Self::Korean => "ko",
            Self::Thai => "th",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Latin => {
                "Kettle Lighthouse Sparrow Midnight Bicycle Harvest Copper Canyon Pancake Rocket Willow Voyage Marble Thunder Orchid Puzzle Summer Engine Puppy Recipe"
            }
            Self::German => {
                "Käsekuchen Frühling Straßenbahn Mühle Glücksbringer Wolken Bäckerei Schlüssel Garten Träume Wanderung Übung Höhle Nordlicht Süßwasser Tischler"
            }
            Self::French => {
                "Château Rivière Crème Forêt Été Musée Façade Hôtel Fenêtre Noël Lumière Cœur Gâteau Voilà Soirée Théâtre"
            }
            Self::Portuguese => {
                "Coração Verão Manhã Canção Praia Avião Irmãos Lições Saudade Feijão Pão Violão Limão Estação Maçã Caminhão"
            }
            Self::Cyrillic => {
                "Чайник Маяк Воробей Полночь Велосипед Урожай Медь Каньон Блины Ракета Ива Щенок Мрамор Гром Орхидея Лето"
            }
            Self::Arabic => {
                "منارة عصفور دراجة حصاد نحاس رحلة رخام رعد أوركيد لغز صيف محرك وصفة قمر بحر حديقة"
            }
            Self::Hindi => {
                "केतली गौरैया साइकिल फसल ताँबा यात्रा संगमरमर गर्जन पहेली ग्रीष्म इंजन व्यंजन चाँद समुद्र बगीचा सितारा"
            }
            Self::Japanese => {
                "灯台 すずめ 真夜中 自転車 収穫 渓谷 ロケット やなぎ 大理石 雷 パズル 夏休み エンジン 子犬 レシピ 月"
            }
            Self::Korean => {
                "주전자 등대 참새 한밤중 자전거 수확 구리 협곡 로켓 버드나무 대리석 천둥 퍼즐 여름 강아지 요리법"
            }
            Self::Thai => {
                "กาน้ำ ประภาคาร นกกระจอก เที่ยงคืน จักรยาน ทองแดง หุบเขา จรวด ต้นหลิว หินอ่อน ฟ้าร้อง กล้วยไม้ ปริศนา ฤดูร้อน ลูกสุนัข สูตรอาหาร"
            }
        }
    }

    const fn between(self) -> &'static str {
        match self {
            Self::Japanese | Self::Thai => "",
            _ => " ",
        }
    }
}

/// So many words.
pub fn words(script: Script, count: u64, chance: Chance) -> String {
    let known: Vec<&str> = script.words().split(' ').collect();
    let words: Vec<&str> = (0..count)
        .map(|number| chance.nth(number).pick(&known))
        .collect();
    words.join(script.between())
}

/// A title as people give them: with what needs escaping now and then.
pub fn title(script: Script, chance: Chance) -> String {
    let words = words(
        script,
        chance.of("length").below(5).saturating_add(2),
        chance,
    );
    match chance.of("decoration").below(12) {
        0 => format!("{words} & Co."),
        1 => format!("\"{words}\""),
        2 => format!("{words} 🎬"),
        3 => format!("Don't miss: {words}"),
        4 => format!("{words} | #{}", chance.of("episode").below(400)),
        5 => format!("🔥 {words} <live>"),
        _ => words,
    }
}

/// A description: some lines, at times none at all.
pub fn text(script: Script, chance: Chance) -> String {
    let lines = chance.of("lines").below(5);
    let line = |number| {
        words(
            script,
            chance.of("line").nth(number).below(9).saturating_add(3),
            chance.nth(number),
        )
    };
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

/// A name of somebody or something: a word or two.
pub fn name(script: Script, chance: Chance) -> String {
    words(
        script,
        chance.of("length").below(2).saturating_add(1),
        chance,
    )
}

/// A text as it stands in a web page.
pub fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
