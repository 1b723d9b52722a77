//! Control messages, as made from `proto/lightstream.proto`: change that file, then run the test
//! `derives_are_those_of_the_proto_file` with `LIGHTSTREAM_WRITE_DERIVES=1`.
#![allow(missing_docs, clippy::all)]

/// What a client sends with tag 0. One request is under way on a connection at a time, `cancel` aside.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Request {
    /// Milliseconds within which the whole answer must be complete; 0 means no limit.
    #[prost(uint64, tag = "1")]
    pub timeout_ms: u64,
    /// Where the client stands in a trace: the `traceparent` of W3C Trace Context. Empty, or not such a text: in none.
    #[prost(string, tag = "11")]
    pub traceparent: ::prost::alloc::string::String,
    #[prost(oneof = "request::Kind", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub kind: ::core::option::Option<request::Kind>,
}
/// Nested message and enum types in `Request`.
pub mod request {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "2")]
        Hello(super::Hello),
        #[prost(message, tag = "3")]
        ListTables(super::ListTables),
        #[prost(message, tag = "4")]
        DescribeTable(super::DescribeTable),
        #[prost(message, tag = "5")]
        Plan(super::Plan),
        #[prost(message, tag = "6")]
        Read(super::Read),
        #[prost(message, tag = "7")]
        Renew(super::Renew),
        #[prost(message, tag = "8")]
        Release(super::Release),
        #[prost(message, tag = "9")]
        Ping(super::Ping),
        #[prost(message, tag = "10")]
        Cancel(super::Cancel),
    }
}
/// What a server sends with tag 1.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Response {
    #[prost(oneof = "response::Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub kind: ::core::option::Option<response::Kind>,
}
/// Nested message and enum types in `Response`.
pub mod response {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Error(super::Error),
        #[prost(message, tag = "2")]
        Welcome(super::Welcome),
        #[prost(message, tag = "3")]
        Tables(super::Tables),
        #[prost(message, tag = "4")]
        TableInfo(super::TableInfo),
        #[prost(message, tag = "5")]
        ScanPlan(super::ScanPlan),
        #[prost(message, tag = "6")]
        UnitEnd(super::UnitEnd),
        #[prost(message, tag = "7")]
        ReadEnd(super::ReadEnd),
        #[prost(message, tag = "8")]
        Progress(super::Progress),
        #[prost(message, tag = "9")]
        Renewed(super::Renewed),
        #[prost(message, tag = "10")]
        Released(super::Released),
        #[prost(message, tag = "11")]
        Pong(super::Pong),
        #[prost(message, tag = "12")]
        Cancelled(super::Cancelled),
    }
}
/// Opens a connection. The client may send its first request without awaiting the answer.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Hello {
    /// Versions of this service that the client speaks.
    #[prost(uint32, repeated, tag = "1")]
    pub versions: ::prost::alloc::vec::Vec<u32>,
    /// Name and version of the client, for logs.
    #[prost(string, tag = "2")]
    pub client: ::prost::alloc::string::String,
    /// Bearer token, or with a user name its password; empty where there is none.
    #[prost(string, tag = "3")]
    pub token: ::prost::alloc::string::String,
    /// Optional abilities of the client.
    #[prost(string, repeated, tag = "4")]
    pub features: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Body compressions that the client can read.
    #[prost(string, repeated, tag = "5")]
    pub compression: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Name of a user whose password is in `token`; empty where there is none.
    #[prost(string, tag = "6")]
    pub username: ::prost::alloc::string::String,
}
/// Answers Hello.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Welcome {
    /// The version that both sides speak from here on.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Name and version of the server, for logs.
    #[prost(string, tag = "2")]
    pub server: ::prost::alloc::string::String,
    /// Optional abilities of the server.
    #[prost(string, repeated, tag = "3")]
    pub features: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Bounds that the server puts on requests.
    #[prost(message, optional, tag = "4")]
    pub limits: ::core::option::Option<Limits>,
    /// Names this server process; another one after a restart.
    #[prost(string, tag = "5")]
    pub server_id: ::prost::alloc::string::String,
}
/// Bounds that a server puts on requests. 0 means not told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Limits {
    /// Largest request, in bytes.
    #[prost(uint64, tag = "1")]
    pub request_bytes: u64,
    /// Largest frame that the server sends, in bytes.
    #[prost(uint64, tag = "2")]
    pub frame_bytes: u64,
}
/// Asks for the names of tables, a page at a time.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ListTables {
    /// Only names that start with this.
    #[prost(string, tag = "1")]
    pub prefix: ::prost::alloc::string::String,
    /// Where the last page ended; empty for the first.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
}
/// Answers ListTables.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Tables {
    #[prost(message, repeated, tag = "1")]
    pub tables: ::prost::alloc::vec::Vec<TableEntry>,
    /// Where the next page starts; empty after the last.
    #[prost(string, tag = "2")]
    pub page_token: ::prost::alloc::string::String,
}
/// A table in a listing.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TableEntry {
    /// The name, as DescribeTable and ScanRequest take it.
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// `table` or `view`.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
}
/// Asks what a table is.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct DescribeTable {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// A snapshot to describe; empty for the newest.
    #[prost(string, tag = "2")]
    pub snapshot: ::prost::alloc::string::String,
}
/// Answers DescribeTable.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TableInfo {
    #[prost(string, tag = "1")]
    pub name: ::prost::alloc::string::String,
    /// `table` or `view`.
    #[prost(string, tag = "2")]
    pub kind: ::prost::alloc::string::String,
    /// One encapsulated Arrow IPC schema message.
    #[prost(bytes = "vec", tag = "3")]
    pub schema: ::prost::alloc::vec::Vec<u8>,
    /// Names the state that is described. Empty where a table has none that outlives a plan.
    #[prost(string, tag = "4")]
    pub snapshot: ::prost::alloc::string::String,
    #[prost(message, optional, tag = "5")]
    pub statistics: ::core::option::Option<Statistics>,
    /// The order of the rows, partition after partition; empty where none is known.
    #[prost(message, repeated, tag = "6")]
    pub ordering: ::prost::alloc::vec::Vec<SortColumn>,
    #[prost(message, optional, tag = "7")]
    pub capabilities: ::core::option::Option<Capabilities>,
}
/// What a table can do for a scan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Capabilities {
    /// Conjuncts that the shared conformance table calls exact are applied exactly.
    #[prost(bool, tag = "1")]
    pub exact_filters: bool,
    /// A plan can be made of this table in several partitions.
    #[prost(bool, tag = "2")]
    pub partitions: bool,
}
/// A column in an ordering.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct SortColumn {
    /// Path from the top-level field down.
    #[prost(string, repeated, tag = "1")]
    pub path: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    #[prost(bool, tag = "2")]
    pub descending: bool,
    #[prost(bool, tag = "3")]
    pub nulls_first: bool,
}
/// What is known of the rows of a table or partition.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Statistics {
    #[prost(message, optional, tag = "1")]
    pub rows: ::core::option::Option<Count>,
    #[prost(message, optional, tag = "2")]
    pub bytes: ::core::option::Option<Count>,
    /// One for each top-level field of the schema, or none at all.
    #[prost(message, repeated, tag = "3")]
    pub columns: ::prost::alloc::vec::Vec<ColumnStatistics>,
    /// An Arrow IPC stream of one batch of two rows, least and greatest value, holding one column for each of `columns`
    /// that says `bounds`, in order.
    #[prost(bytes = "vec", tag = "4")]
    pub bounds: ::prost::alloc::vec::Vec<u8>,
}
/// A number that may be an estimate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Count {
    #[prost(uint64, tag = "1")]
    pub value: u64,
    #[prost(bool, tag = "2")]
    pub exact: bool,
}
/// What is known of one column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ColumnStatistics {
    #[prost(message, optional, tag = "1")]
    pub nulls: ::core::option::Option<Count>,
    /// `Statistics.bounds` has a column for this one.
    #[prost(bool, tag = "2")]
    pub bounds: bool,
    /// The bounds are values that occur, not merely bounds.
    #[prost(bool, tag = "3")]
    pub bounds_exact: bool,
}
/// What to scan. The same request on the same snapshot always yields the same partitions.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ScanRequest {
    /// The columns to return; absent for all.
    #[prost(message, optional, tag = "3")]
    pub projection: ::core::option::Option<Projection>,
    #[prost(message, optional, tag = "4")]
    pub filter: ::core::option::Option<Filter>,
    /// Most rows that are wanted of each partition, after filters.
    #[prost(uint64, optional, tag = "5")]
    pub limit: ::core::option::Option<u64>,
    /// The snapshot to read; empty for the newest.
    #[prost(string, tag = "6")]
    pub snapshot: ::prost::alloc::string::String,
    /// Most partitions to cut the scan into; 0 leaves it to the server.
    #[prost(uint32, tag = "7")]
    pub max_partitions: u32,
    /// Rows are wanted in the table's order, partition after partition.
    #[prost(bool, tag = "8")]
    pub ordered: bool,
    #[prost(oneof = "scan_request::Source", tags = "1, 2")]
    pub source: ::core::option::Option<scan_request::Source>,
}
/// Nested message and enum types in `ScanRequest`.
pub mod scan_request {
    #[derive(Clone, PartialEq, Eq, Hash, ::prost::Oneof)]
    pub enum Source {
        #[prost(string, tag = "1")]
        Table(::prost::alloc::string::String),
        #[prost(string, tag = "2")]
        Sql(::prost::alloc::string::String),
    }
}
/// Chosen top-level columns, by position in the table's schema.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Projection {
    #[prost(uint32, repeated, tag = "1")]
    pub columns: ::prost::alloc::vec::Vec<u32>,
}
/// A conjunction, engine-neutral, under SQL's three-valued logic: a row passes where every conjunct is true.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Filter {
    #[prost(enumeration = "FloatRule", tag = "1")]
    pub float_rule: i32,
    #[prost(message, repeated, tag = "2")]
    pub conjuncts: ::prost::alloc::vec::Vec<Expr>,
    /// An Arrow IPC stream of one batch of one row: column i is literal i. The values of an IN list are one List literal.
    #[prost(bytes = "vec", tag = "3")]
    pub literals: ::prost::alloc::vec::Vec<u8>,
}
/// A node of a filter. A node that the server does not know makes its conjunct unsupported, never an error.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Expr {
    #[prost(
        oneof = "expr::Kind",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"
    )]
    pub kind: ::core::option::Option<expr::Kind>,
}
/// Nested message and enum types in `Expr`.
pub mod expr {
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Column(super::Column),
        /// Position of the literal in Filter.literals.
        #[prost(uint32, tag = "2")]
        Literal(u32),
        #[prost(message, tag = "3")]
        Comparison(::prost::alloc::boxed::Box<super::Comparison>),
        #[prost(message, tag = "4")]
        And(super::Exprs),
        #[prost(message, tag = "5")]
        Or(super::Exprs),
        #[prost(message, tag = "6")]
        Not(::prost::alloc::boxed::Box<super::Expr>),
        #[prost(message, tag = "7")]
        IsNull(::prost::alloc::boxed::Box<super::Expr>),
        #[prost(message, tag = "8")]
        IsNotNull(::prost::alloc::boxed::Box<super::Expr>),
        #[prost(message, tag = "9")]
        InList(::prost::alloc::boxed::Box<super::InList>),
        #[prost(message, tag = "10")]
        Between(::prost::alloc::boxed::Box<super::Between>),
        #[prost(message, tag = "11")]
        Like(::prost::alloc::boxed::Box<super::Like>),
        #[prost(message, tag = "12")]
        StringMatch(::prost::alloc::boxed::Box<super::StringMatch>),
        #[prost(message, tag = "13")]
        IsNan(::prost::alloc::boxed::Box<super::Expr>),
        #[prost(message, tag = "14")]
        Cast(::prost::alloc::boxed::Box<super::Cast>),
        #[prost(message, tag = "15")]
        Arithmetic(::prost::alloc::boxed::Box<super::Arithmetic>),
    }
}
/// A column, as a path from the top-level field down through struct fields.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Column {
    #[prost(string, repeated, tag = "1")]
    pub path: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Exprs {
    #[prost(message, repeated, tag = "1")]
    pub operands: ::prost::alloc::vec::Vec<Expr>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Comparison {
    #[prost(enumeration = "comparison::Op", tag = "1")]
    pub op: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub left: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub right: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
}
/// Nested message and enum types in `Comparison`.
pub mod comparison {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Op {
        Unknown = 0,
        Eq = 1,
        NotEq = 2,
        Lt = 3,
        LtEq = 4,
        Gt = 5,
        GtEq = 6,
        IsDistinctFrom = 7,
        IsNotDistinctFrom = 8,
    }
    impl Op {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Eq => "EQ",
                Self::NotEq => "NOT_EQ",
                Self::Lt => "LT",
                Self::LtEq => "LT_EQ",
                Self::Gt => "GT",
                Self::GtEq => "GT_EQ",
                Self::IsDistinctFrom => "IS_DISTINCT_FROM",
                Self::IsNotDistinctFrom => "IS_NOT_DISTINCT_FROM",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "EQ" => Some(Self::Eq),
                "NOT_EQ" => Some(Self::NotEq),
                "LT" => Some(Self::Lt),
                "LT_EQ" => Some(Self::LtEq),
                "GT" => Some(Self::Gt),
                "GT_EQ" => Some(Self::GtEq),
                "IS_DISTINCT_FROM" => Some(Self::IsDistinctFrom),
                "IS_NOT_DISTINCT_FROM" => Some(Self::IsNotDistinctFrom),
                _ => None,
            }
        }
    }
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct InList {
    #[prost(message, optional, boxed, tag = "1")]
    pub operand: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    /// Position of a List literal in Filter.literals.
    #[prost(uint32, tag = "2")]
    pub list: u32,
    #[prost(bool, tag = "3")]
    pub negated: bool,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Between {
    #[prost(message, optional, boxed, tag = "1")]
    pub operand: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub low: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub high: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(bool, tag = "4")]
    pub negated: bool,
}
/// SQL LIKE with `\` as its escape character.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Like {
    #[prost(message, optional, boxed, tag = "1")]
    pub operand: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub pattern: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(bool, tag = "3")]
    pub case_insensitive: bool,
    #[prost(bool, tag = "4")]
    pub negated: bool,
}
/// A match of plain text, without wildcards.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct StringMatch {
    #[prost(enumeration = "string_match::Op", tag = "1")]
    pub op: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub operand: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub text: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
}
/// Nested message and enum types in `StringMatch`.
pub mod string_match {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Op {
        Unknown = 0,
        StartsWith = 1,
        EndsWith = 2,
        Contains = 3,
    }
    impl Op {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::StartsWith => "STARTS_WITH",
                Self::EndsWith => "ENDS_WITH",
                Self::Contains => "CONTAINS",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "STARTS_WITH" => Some(Self::StartsWith),
                "ENDS_WITH" => Some(Self::EndsWith),
                "CONTAINS" => Some(Self::Contains),
                _ => None,
            }
        }
    }
}
/// A cast that cannot lose a value.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Cast {
    #[prost(message, optional, boxed, tag = "1")]
    pub operand: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    /// One encapsulated Arrow IPC schema message whose only field has the type to cast to.
    #[prost(bytes = "vec", tag = "2")]
    pub schema: ::prost::alloc::vec::Vec<u8>,
}
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Arithmetic {
    #[prost(enumeration = "arithmetic::Op", tag = "1")]
    pub op: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub left: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub right: ::core::option::Option<::prost::alloc::boxed::Box<Expr>>,
}
/// Nested message and enum types in `Arithmetic`.
pub mod arithmetic {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Op {
        Unknown = 0,
        Add = 1,
        Subtract = 2,
        Multiply = 3,
        Divide = 4,
        Modulo = 5,
    }
    impl Op {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Add => "ADD",
                Self::Subtract => "SUBTRACT",
                Self::Multiply => "MULTIPLY",
                Self::Divide => "DIVIDE",
                Self::Modulo => "MODULO",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "ADD" => Some(Self::Add),
                "SUBTRACT" => Some(Self::Subtract),
                "MULTIPLY" => Some(Self::Multiply),
                "DIVIDE" => Some(Self::Divide),
                "MODULO" => Some(Self::Modulo),
                _ => None,
            }
        }
    }
}
/// Asks for the partitions of a scan.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Plan {
    #[prost(message, optional, tag = "1")]
    pub request: ::core::option::Option<ScanRequest>,
    /// A result of at most this many bytes follows the plan at once; 0 for never.
    #[prost(uint64, tag = "2")]
    pub inline_up_to_bytes: u64,
}
/// Answers Plan. The union of the partitions is the result, and no row is in two.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ScanPlan {
    /// The state that is read. Empty where it does not outlive the plan.
    #[prost(string, tag = "1")]
    pub snapshot: ::prost::alloc::string::String,
    /// One encapsulated Arrow IPC schema message: the schema of the rows that come back.
    #[prost(bytes = "vec", tag = "2")]
    pub schema: ::prost::alloc::vec::Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    pub ordering: ::prost::alloc::vec::Vec<SortColumn>,
    /// Of the rows that come back.
    #[prost(message, optional, tag = "4")]
    pub statistics: ::core::option::Option<Statistics>,
    /// One for each conjunct of the filter.
    #[prost(enumeration = "FilterSupport", repeated, tag = "5")]
    pub filters: ::prost::alloc::vec::Vec<i32>,
    #[prost(message, repeated, tag = "6")]
    pub partitions: ::prost::alloc::vec::Vec<Partition>,
    /// Milliseconds for which the tickets are good.
    #[prost(uint64, tag = "7")]
    pub valid_for_ms: u64,
    /// The whole result follows, with its ReadEnd, as if the partitions were read one after the other.
    #[prost(bool, tag = "8")]
    pub inline: bool,
}
/// A part of a scan that is read on its own: a pure function of snapshot, request and index.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Partition {
    /// Opaque and sealed; good at every server that shares the key.
    #[prost(bytes = "vec", tag = "1")]
    pub ticket: ::prost::alloc::vec::Vec<u8>,
    /// URLs of servers that have the partition; none means the server that was asked.
    #[prost(string, repeated, tag = "2")]
    pub locations: ::prost::alloc::vec::Vec<::prost::alloc::string::String>,
    /// Rows before filters.
    #[prost(message, optional, tag = "3")]
    pub rows: ::core::option::Option<Count>,
    #[prost(message, optional, tag = "4")]
    pub bytes: ::core::option::Option<Count>,
    /// Units that the partition is made of.
    #[prost(uint64, tag = "5")]
    pub units: u64,
    /// Reading may start at any unit.
    #[prost(bool, tag = "6")]
    pub resumable: bool,
}
/// A partition away from its plan, as it is handed to another process. It is never sent on a connection.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PortablePartition {
    /// Its place among the partitions of the plan.
    #[prost(uint64, tag = "1")]
    pub index: u64,
    #[prost(message, optional, tag = "2")]
    pub partition: ::core::option::Option<Partition>,
    /// The state that is read. Empty where it does not outlive the plan.
    #[prost(string, tag = "3")]
    pub snapshot: ::prost::alloc::string::String,
    /// The server process that made the plan.
    #[prost(string, tag = "4")]
    pub server_id: ::prost::alloc::string::String,
    /// One encapsulated Arrow IPC schema message: the schema of the rows that come back.
    #[prost(bytes = "vec", tag = "5")]
    pub schema: ::prost::alloc::vec::Vec<u8>,
    /// The request that was planned.
    #[prost(message, optional, tag = "6")]
    pub request: ::core::option::Option<ScanRequest>,
}
/// Reads one partition: table payloads, UnitEnds and then a ReadEnd come back.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Read {
    #[prost(bytes = "vec", tag = "1")]
    pub ticket: ::prost::alloc::vec::Vec<u8>,
    /// The request that was planned. It is checked against the digest in the ticket.
    #[prost(message, optional, tag = "2")]
    pub request: ::core::option::Option<ScanRequest>,
    /// Only units u with u % stripes == stripe; stripes 0 means 1.
    #[prost(uint32, tag = "3")]
    pub stripe: u32,
    #[prost(uint32, tag = "4")]
    pub stripes: u32,
    /// Only units from this one on.
    #[prost(uint64, tag = "5")]
    pub from_unit: u64,
    /// Frames are cut to about this many bytes; 0 leaves it to the server.
    #[prost(uint64, tag = "6")]
    pub max_frame_bytes: u64,
    /// Most rows in a batch; 0 leaves it to the server.
    #[prost(uint64, tag = "7")]
    pub batch_rows: u64,
    /// So many rows of this answer, after filters, are left out at its beginning. They count towards a limit, and their units
    /// end as others do.
    #[prost(uint64, tag = "8")]
    pub skip_rows: u64,
}
/// Every unit of this read up to and including `unit` has been sent whole. It comes before the rows of any later unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct UnitEnd {
    #[prost(uint64, tag = "1")]
    pub unit: u64,
}
/// Ends a Read that is complete. A stream without it is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ReadEnd {
    /// Units that were read.
    #[prost(uint64, tag = "1")]
    pub units: u64,
    /// Table payloads that hold rows.
    #[prost(uint64, tag = "2")]
    pub batches: u64,
    #[prost(uint64, tag = "3")]
    pub rows: u64,
    /// Bytes of all table payloads.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// The request's limit ended the read before its last unit.
    #[prost(bool, tag = "5")]
    pub limit_reached: bool,
    /// Rows that were left out, as asked for.
    #[prost(uint64, tag = "6")]
    pub skipped_rows: u64,
}
/// Sent while a request is under way and nothing else was sent for a few seconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Progress {
    #[prost(uint64, tag = "1")]
    pub rows_scanned: u64,
}
/// Asks for tickets of a later expiry in place of ones still good.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Renew {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub tickets: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
}
/// Answers Renew, in the same order.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Renewed {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub tickets: ::prost::alloc::vec::Vec<::prost::alloc::vec::Vec<u8>>,
    #[prost(uint64, tag = "2")]
    pub valid_for_ms: u64,
}
/// Tells the server that a plan will not be read again.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Release {
    /// Any ticket of the plan.
    #[prost(bytes = "vec", tag = "1")]
    pub ticket: ::prost::alloc::vec::Vec<u8>,
}
/// Answers Release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Released {}
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Ping {}
/// Answers Ping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Pong {}
/// Ends the request under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Cancel {}
/// The request was cancelled; nothing more comes for it. Also answers a Cancel when nothing was under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Cancelled {}
/// What a ticket holds; followed by an HMAC-SHA-256 of the server's key. Not for clients.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct TicketBody {
    /// SHA-256 of the ScanRequest.
    #[prost(bytes = "vec", tag = "1")]
    pub request_digest: ::prost::alloc::vec::Vec<u8>,
    #[prost(string, tag = "2")]
    pub snapshot: ::prost::alloc::string::String,
    #[prost(uint64, tag = "3")]
    pub partition: u64,
    /// Whom the ticket was given to.
    #[prost(string, tag = "4")]
    pub subject: ::prost::alloc::string::String,
    /// Milliseconds since the Unix epoch.
    #[prost(uint64, tag = "5")]
    pub expires_at_ms: u64,
}
/// Stands in place of any answer, and between the frames of a Read.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct Error {
    #[prost(enumeration = "error::Code", tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: ::prost::alloc::string::String,
    /// The same request may succeed when made again.
    #[prost(bool, tag = "3")]
    pub retryable: bool,
    #[prost(message, optional, tag = "4")]
    pub details: ::core::option::Option<ErrorDetails>,
}
/// Nested message and enum types in `Error`.
pub mod error {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        Hash,
        PartialOrd,
        Ord,
        ::prost::Enumeration
    )]
    #[repr(i32)]
    pub enum Code {
        Unknown = 0,
        InvalidArgument = 1,
        NotFound = 2,
        Unauthenticated = 3,
        PermissionDenied = 4,
        Unimplemented = 5,
        ResourceExhausted = 6,
        Expired = 7,
        Unavailable = 8,
        DeadlineExceeded = 9,
        Cancelled = 10,
        DataLoss = 11,
        Internal = 12,
    }
    impl Code {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::InvalidArgument => "INVALID_ARGUMENT",
                Self::NotFound => "NOT_FOUND",
                Self::Unauthenticated => "UNAUTHENTICATED",
                Self::PermissionDenied => "PERMISSION_DENIED",
                Self::Unimplemented => "UNIMPLEMENTED",
                Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
                Self::Expired => "EXPIRED",
                Self::Unavailable => "UNAVAILABLE",
                Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
                Self::Cancelled => "CANCELLED",
                Self::DataLoss => "DATA_LOSS",
                Self::Internal => "INTERNAL",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "INVALID_ARGUMENT" => Some(Self::InvalidArgument),
                "NOT_FOUND" => Some(Self::NotFound),
                "UNAUTHENTICATED" => Some(Self::Unauthenticated),
                "PERMISSION_DENIED" => Some(Self::PermissionDenied),
                "UNIMPLEMENTED" => Some(Self::Unimplemented),
                "RESOURCE_EXHAUSTED" => Some(Self::ResourceExhausted),
                "EXPIRED" => Some(Self::Expired),
                "UNAVAILABLE" => Some(Self::Unavailable),
                "DEADLINE_EXCEEDED" => Some(Self::DeadlineExceeded),
                "CANCELLED" => Some(Self::Cancelled),
                "DATA_LOSS" => Some(Self::DataLoss),
                "INTERNAL" => Some(Self::Internal),
                _ => None,
            }
        }
    }
}
/// Where an error happened, where known.
#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct ErrorDetails {
    #[prost(string, tag = "1")]
    pub table: ::prost::alloc::string::String,
    #[prost(uint64, optional, tag = "2")]
    pub partition: ::core::option::Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub unit: ::core::option::Option<u64>,
    /// How long to wait before trying again, in milliseconds; 0 where nothing is said.
    #[prost(uint64, tag = "4")]
    pub retry_after_ms: u64,
}
/// How floating-point values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FloatRule {
    /// -NaN \< -inf \< … \< -0.0 \< 0.0 \< … \< inf \< NaN; NaN equals itself.
    TotalOrder = 0,
    /// Total order, but -0.0 and 0.0 are the same value, except in IN lists, which look at bits.
    TotalOrderZeroEqual = 1,
    /// Every NaN is equal to every other and greater than all else; -0.0 = 0.0.
    NanLargest = 2,
    /// IEEE 754: comparisons with NaN are false, != is true; -0.0 = 0.0.
    Ieee = 3,
}
impl FloatRule {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::TotalOrder => "TOTAL_ORDER",
            Self::TotalOrderZeroEqual => "TOTAL_ORDER_ZERO_EQUAL",
            Self::NanLargest => "NAN_LARGEST",
            Self::Ieee => "IEEE",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "TOTAL_ORDER" => Some(Self::TotalOrder),
            "TOTAL_ORDER_ZERO_EQUAL" => Some(Self::TotalOrderZeroEqual),
            "NAN_LARGEST" => Some(Self::NanLargest),
            "IEEE" => Some(Self::Ieee),
            _ => None,
        }
    }
}
/// How far a conjunct of the filter is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum FilterSupport {
    /// Not at all: the client must apply it.
    Unsupported = 0,
    /// In part: a superset of its rows comes back, and the client must apply it again.
    Inexact = 1,
    /// Wholly: the client need not apply it.
    Exact = 2,
}
impl FilterSupport {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Unsupported => "UNSUPPORTED",
            Self::Inexact => "INEXACT",
            Self::Exact => "EXACT",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> ::core::option::Option<Self> {
        match value {
            "UNSUPPORTED" => Some(Self::Unsupported),
            "INEXACT" => Some(Self::Inexact),
            "EXACT" => Some(Self::Exact),
            _ => None,
        }
    }
}
