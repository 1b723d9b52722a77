//! What a server answers to a scan request: partitions, each with its ticket.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use prost::Message;

use super::filter::Support;
use super::ipc;
use super::limits::DecodeLimits;
use super::messages;
use super::request::ScanRequest;
use super::statistics::{Precision, Statistics};
use super::table::SortColumn;
use crate::error::{Error, Result};

/// A planned scan. The union of its partitions is the result, and no row is in two.
#[derive(Debug, Clone)]
pub struct ScanPlan {
    /// Names the state that is read; `None` where it does not outlive the plan.
    pub snapshot: Option<String>,
    /// The schema of the rows that come back.
    pub schema: SchemaRef,
    /// The order of the rows, partition after partition; empty where none is known.
    pub ordering: Vec<SortColumn>,
    /// What is known of the rows that come back.
    pub statistics: Statistics,
    /// How far each conjunct of the filter is applied. What is not exact must be applied again.
    pub filters: Vec<Support>,
    /// The partitions, in the table's order.
    pub partitions: Vec<Partition>,
    /// How long the tickets are good, counted from the answer.
    pub valid_for: Duration,
}

/// A part of a scan that is read on its own: a pure function of snapshot, request and index.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its place among the partitions of the plan.
    pub index: usize,
    /// Opaque and sealed; good at every server that shares the key.
    pub ticket: Vec<u8>,
    /// URLs of servers that have the partition; none means the server that planned it.
    pub locations: Vec<String>,
    /// Rows, before filters.
    pub rows: Precision,
    /// Bytes in memory, before filters.
    pub bytes: Precision,
    /// Units that the partition is made of.
    pub units: u64,
    /// Reading may start at any unit.
    pub resumable: bool,
    /// Names the state that is read; `None` where it does not outlive the plan.
    pub snapshot: Option<String>,
    /// The server process that made the plan; another one may have another key.
    pub server_id: String,
    /// When the first partition of the plan began to be read, from which a time limit of the whole scan counts.
    pub started: Arc<OnceLock<Instant>>,
    /// The rows themselves, where they are few and came with the plan.
    pub rows_at_hand: Option<Arc<[RecordBatch]>>,
    /// The schema of the rows that come back.
    pub schema: SchemaRef,
    /// The request that was planned, as it is sent along with the ticket.
    pub request: Arc<messages::ScanRequest>,
}

impl Partition {
    /// The partition as bytes that another process reads it from. They hold its ticket, which is good for whoever has
    /// them; rows that came with the plan stay behind and are read again.
    ///
    /// # Errors
    /// Only `internal` ones.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let offer = PartitionOffer {
            ticket: self.ticket.clone(),
            locations: self.locations.clone(),
            rows: self.rows,
            bytes: self.bytes,
            units: self.units,
            resumable: self.resumable,
        };
        let portable = messages::PortablePartition {
            index: self.index as u64,
            partition: Some(offer.into_proto()),
            snapshot: self.snapshot.clone().unwrap_or_default(),
            server_id: self.server_id.clone(),
            schema: ipc::encode_schema(&self.schema)?,
            request: Some((*self.request).clone()),
        };
        Ok(portable.encode_to_vec())
    }

    /// Reads what [`Partition::to_bytes`] wrote. A time limit of the scan counts anew.
    ///
    /// # Errors
    /// `invalid_argument` where the bytes are no partition.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let malformed = || Error::invalid_argument("the bytes are not those of a partition");
        let portable = messages::PortablePartition::decode(bytes)
            .map_err(|error| malformed().with_source(error))?;
        let schema = ipc::decode_schema(&portable.schema, &DecodeLimits::default())
            .map_err(|error| malformed().with_source(error))?;
        let partition = portable.partition.ok_or_else(malformed)?;
        let index = usize::try_from(portable.index).map_err(|_| malformed())?;
        let about = PlanPart {
            snapshot: Some(portable.snapshot).filter(|snapshot| !snapshot.is_empty()),
            server_id: portable.server_id,
            started: Arc::default(),
            schema,
            request: Arc::new(portable.request.ok_or_else(malformed)?),
        };
        Ok(about.partition(index, partition))
    }
}

/// What all partitions of a plan share.
struct PlanPart {
    snapshot: Option<String>,
    server_id: String,
    started: Arc<OnceLock<Instant>>,
    schema: SchemaRef,
    request: Arc<messages::ScanRequest>,
}

impl PlanPart {
    fn partition(&self, index: usize, partition: messages::Partition) -> Partition {
        Partition {
            index,
            ticket: partition.ticket,
            locations: partition.locations,
            rows: Precision::from_proto(partition.rows.as_ref()),
            bytes: Precision::from_proto(partition.bytes.as_ref()),
            units: partition.units,
            resumable: partition.resumable,
            snapshot: self.snapshot.clone(),
            server_id: self.server_id.clone(),
            started: Arc::clone(&self.started),
            rows_at_hand: None,
            schema: Arc::clone(&self.schema),
            request: Arc::clone(&self.request),
        }
    }
}

fn support_to_proto(support: Support) -> messages::FilterSupport {
    match support {
        Support::Unsupported => messages::FilterSupport::Unsupported,
        Support::Inexact => messages::FilterSupport::Inexact,
        Support::Exact => messages::FilterSupport::Exact,
    }
}

/// What a server says of a partition beside its ticket.
pub(crate) struct PartitionOffer {
    pub ticket: Vec<u8>,
    pub locations: Vec<String>,
    pub rows: Precision,
    pub bytes: Precision,
    pub units: u64,
    pub resumable: bool,
}

impl PartitionOffer {
    pub(crate) fn into_proto(self) -> messages::Partition {
        messages::Partition {
            ticket: self.ticket,
            locations: self.locations,
            rows: self.rows.to_proto(),
            bytes: self.bytes.to_proto(),
            units: self.units,
            resumable: self.resumable,
        }
    }
}

/// How far each conjunct is applied, as it travels.
pub(crate) fn filters_to_proto(filters: &[Support]) -> Vec<i32> {
    filters
        .iter()
        .map(|&support| support_to_proto(support).into())
        .collect()
}

impl ScanPlan {
    /// Reads the answer to `request`, and checks that it answers that request.
    pub(crate) fn from_proto(
        plan: messages::ScanPlan,
        request: &ScanRequest,
        sent: messages::ScanRequest,
        server_id: &str,
        limits: &DecodeLimits,
    ) -> Result<Self> {
        let schema = ipc::decode_schema(&plan.schema, limits)?;
        if plan.filters.len() != request.filter.conjuncts.len() {
            return Err(Error::data_loss(format!(
                "the plan speaks of {} conjuncts where {} were asked for",
                plan.filters.len(),
                request.filter.conjuncts.len()
            )));
        }
        if let Some(projection) = &request.projection
            && schema.fields().len() != projection.len()
        {
            return Err(Error::data_loss(format!(
                "the plan gives {} columns where {} were asked for",
                schema.fields().len(),
                projection.len()
            )));
        }
        let filters = plan
            .filters
            .iter()
            .map(
                |&support| match messages::FilterSupport::try_from(support) {
                    Ok(messages::FilterSupport::Exact) => Support::Exact,
                    Ok(messages::FilterSupport::Inexact) => Support::Inexact,
                    Ok(messages::FilterSupport::Unsupported) | Err(_) => Support::Unsupported,
                },
            )
            .collect();
        let snapshot = Some(plan.snapshot).filter(|snapshot| !snapshot.is_empty());
        let part = PlanPart {
            snapshot: snapshot.clone(),
            server_id: server_id.to_owned(),
            started: Arc::default(),
            schema: Arc::clone(&schema),
            request: Arc::new(sent),
        };
        let partitions = plan
            .partitions
            .into_iter()
            .enumerate()
            .map(|(index, partition)| part.partition(index, partition))
            .collect();
        Ok(Self {
            snapshot,
            schema,
            ordering: plan.ordering.iter().map(SortColumn::from_proto).collect(),
            statistics: Statistics::from_proto(plan.statistics.as_ref(), limits)?,
            filters,
            partitions,
            valid_for: Duration::from_millis(plan.valid_for_ms),
        })
    }
}
