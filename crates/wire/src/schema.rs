//! The macro in which messages are written: structs whose fields each say in which versions they are on the wire.

/// In which versions a field is on the wire, and how. Made by [`messages!`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldRule {
    from: i16,
    until: i16,
    nullable_from: i16,
    tag: Option<u32>,
}

impl FieldRule {
    pub(crate) const fn from(from: i16) -> Self {
        Self {
            from,
            until: i16::MAX,
            nullable_from: 0,
            tag: None,
        }
    }

    pub(crate) const fn until(self, until: i16) -> Self {
        Self { until, ..self }
    }

    pub(crate) const fn null_from(self, nullable_from: i16) -> Self {
        Self {
            nullable_from,
            ..self
        }
    }

    pub(crate) const fn tag(self, tag: u32) -> Self {
        Self {
            tag: Some(tag),
            ..self
        }
    }

    /// Whether the field stands in `version`, tagged or not.
    pub(crate) const fn present(self, version: i16) -> bool {
        self.from <= version && version <= self.until
    }

    /// Whether the field stands in its place among the others.
    pub(crate) const fn in_order(self, version: i16) -> bool {
        self.tag.is_none() && self.present(version)
    }

    /// The tag, if the field stands in `version` as a tagged field.
    pub(crate) const fn tag_in(self, version: i16) -> Option<u32> {
        if self.present(version) { self.tag } else { None }
    }

    /// Whether `version` lets the field be null (if its type can be).
    pub(crate) const fn nullable(self, version: i16) -> bool {
        self.nullable_from <= version
    }
}

/// Writes messages about as they stand in Kafka's schemas.
///
/// Each field says in brackets in which versions it is on the wire: `[3..]`, `[0..=7]`; from which version on it may be
/// null, where that is not all of them: `[0.., null 1..]`; and its tag, if it has one: `[10.., tag 0]`. After the type a
/// default may follow.
///
/// `request` and its `response` are a pair; `message` stands alone; `struct` is a part of one of them.
///
/// ```text
/// messages! {
///     /// Asks for topics.
///     request MetadataRequest, METADATA, versions 0..=13, flexible 9.., answered by MetadataResponse {
///         [0.., null 1..] topics: Option<Vec<MetadataRequestTopic>>,
///         [4..]           allow_auto_topic_creation: bool = true,
///     }
///     response … { … }
///     struct MetadataRequestTopic { … }
/// }
/// ```
macro_rules! messages {
    () => {};

    ($(#[$meta:meta])* request $name:ident, $key:ident,
        versions $oldest:literal ..= $newest:literal, flexible $($flexible:literal ..)? $(never)?,
        answered by $response:ident $fields:tt $($rest:tt)*) => {
        $crate::schema::messages! { $(#[$meta])* struct $name $fields }
        impl $crate::codec::Message for $name {
            const VERSIONS: std::ops::RangeInclusive<i16> = $oldest..=$newest;
            const FLEXIBLE_FROM: Option<i16> = $crate::schema::first_of(&[$($flexible)?]);
        }
        impl $crate::codec::Request for $name {
            type Response = $response;
            const KEY: $crate::ApiKey = $crate::ApiKey::$key;
        }
        impl $crate::codec::Message for $response {
            const VERSIONS: std::ops::RangeInclusive<i16> = $oldest..=$newest;
            const FLEXIBLE_FROM: Option<i16> = $crate::schema::first_of(&[$($flexible)?]);
        }
        $crate::schema::messages! { $($rest)* }
    };

    ($(#[$meta:meta])* message $name:ident,
        versions $oldest:literal ..= $newest:literal, flexible $($flexible:literal ..)? $(never)?
        { $($fields:tt)* } $($rest:tt)*) => {
        $crate::schema::messages! { $(#[$meta])* struct $name { $($fields)* } }
        impl $crate::codec::Message for $name {
            const VERSIONS: std::ops::RangeInclusive<i16> = $oldest..=$newest;
            const FLEXIBLE_FROM: Option<i16> = $crate::schema::first_of(&[$($flexible)?]);
        }
        $crate::schema::messages! { $($rest)* }
    };

    ($(#[$meta:meta])* response $name:ident $fields:tt $($rest:tt)*) => {
        $crate::schema::messages! { $(#[$meta])* struct $name $fields $($rest)* }
    };

    ($(#[$meta:meta])* struct $name:ident {
        $(
            $(#[$field_meta:meta])*
            [$from:literal $(..)? $(..= $until:literal)? $(, null $null_from:literal ..)? $(, tag $tag:literal)?]
            $field:ident : $kind:ty $(= $default:expr)?
        ),* $(,)?
    } $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[doc = concat!("\n\nOn the wire from version ", stringify!($from), $(" to ", stringify!($until),)? ".")]
                pub $field: $kind,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::schema::messages!(@default $($default)?)),* }
            }
        }

        #[allow(non_upper_case_globals, reason = "one constant per field, named as the field is")]
        const _: () = {
            use $crate::codec::{DecodeError, Field, Layout, Nullable, Reader, Writer};
            use $crate::schema::FieldRule;

            /// When each field is on the wire. In a namespace of its own: constants are not hygienic.
            struct Rules;

            impl Rules {
                $(
                    const $field: FieldRule = FieldRule::from($from)
                        $(.until($until))? $(.null_from($null_from))? $(.tag($tag))?;
                )*
            }

            impl Field for $name {
                #[allow(unused_variables, reason = "some structs have no field")]
                fn write(&self, layout: Layout, out: &mut Writer<'_>) {
                    let version = layout.version;
                    $(
                        if Rules::$field.in_order(version) {
                            if stringify!($field) == $crate::throttle::FIELD {
                                out.note_throttle_time();
                            }
                            if Rules::$field.nullable(version) {
                                self.$field.write(layout, out);
                            } else {
                                self.$field.write_required(layout, out);
                            }
                        }
                    )*
                    if layout.flexible {
                        let default = Self::default();
                        let tagged = [$(Rules::$field.tag_in(version).is_some() && self.$field != default.$field),*];
                        out.put_unsigned(tagged.iter().filter(|&&tagged| tagged).count() as u64);
                        $(
                            if let Some(tag) = Rules::$field.tag_in(version) && self.$field != default.$field {
                                out.put_tagged(tag, |out| self.$field.write(layout, out));
                            }
                        )*
                    }
                }

                #[allow(unused_mut, unused_variables, reason = "some structs have no field")]
                fn read(layout: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
                    let version = layout.version;
                    let mut message = Self::default();
                    $(
                        if Rules::$field.in_order(version) {
                            message.$field = if Rules::$field.nullable(version) {
                                Field::read(layout, input)
                            } else {
                                Field::read_required(layout, input)
                            }
                            .map_err(|error| error.in_field(concat!(stringify!($name), ".", stringify!($field))))?;
                        }
                    )*
                    input.read_tagged(layout, |tag, input| {
                        $(
                            if Rules::$field.tag_in(version) == Some(tag) {
                                message.$field = Field::read(layout, input).map_err(|error| {
                                    error.in_field(concat!(stringify!($name), ".", stringify!($field)))
                                })?;
                                return Ok(true);
                            }
                        )*
                        Ok(false)
                    })?;
                    Ok(message)
                }

                #[allow(unused_mut, unused_variables, reason = "some structs have no field")]
                fn least_bytes(layout: Layout) -> usize {
                    let mut least = usize::from(layout.flexible);
                    $(
                        if Rules::$field.in_order(layout.version) {
                            least += <$kind as Field>::least_bytes(layout);
                        }
                    )*
                    least
                }
            }

            impl Nullable for $name {
                fn write_null(_: Layout, out: &mut Writer<'_>) {
                    out.put_i8(-1);
                }

                fn read_nullable(layout: Layout, input: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
                    if input.read_i8()? < 0 { Ok(None) } else { Self::read(layout, input).map(Some) }
                }

                fn write_present(&self, layout: Layout, out: &mut Writer<'_>) {
                    out.put_i8(1);
                    self.write(layout, out);
                }
            }

            #[cfg(any(test, feature = "fuzzing"))]
            impl $crate::sample::Sample for $name {
                #[allow(unused_variables, reason = "some structs have no field")]
                fn sample(layout: Layout, source: &mut $crate::sample::Source<'_>) -> Self {
                    let version = layout.version;
                    let mut message = Self::default();
                    $(
                        if Rules::$field.present(version) {
                            message.$field = if Rules::$field.nullable(version) {
                                $crate::sample::Sample::sample(layout, source)
                            } else {
                                $crate::sample::Sample::sample_required(layout, source)
                            };
                        }
                    )*
                    message
                }
            }
        };

        $crate::schema::messages! { $($rest)* }
    };

    (@default $default:expr) => { $default };
    (@default) => { Default::default() };
}

pub(crate) use messages;

/// The first of at most one; lets a macro turn an optional part into an [`Option`].
pub(crate) const fn first_of(versions: &[i16]) -> Option<i16> {
    match versions {
        [first, ..] => Some(*first),
        [] => None,
    }
}
