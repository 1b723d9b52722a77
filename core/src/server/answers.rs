//! What is answered to each kind of request but Read: nothing here knows the connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::Shared;
use super::authenticate::Identity;
use super::leases::Reading;
use super::table::{Catalog, Scan, Table};
use crate::error::{Error, Result};
use crate::protocol::filter::FilterLimits;
use crate::protocol::ipc;
use crate::protocol::messages::{self, response};
use crate::protocol::plan::{PartitionOffer, filters_to_proto};
use crate::protocol::request::{ScanRequest, ScanSource, request_digest};
use crate::protocol::table::SortColumn;
use crate::protocol::ticket::{Ticket, expiry_ms};

/// Names in one page of a listing.
const PAGE_NAMES: usize = 1000;

/// Snapshots that live in one plan only start with this; no other snapshot does.
const PLAN_ONLY: char = '~';

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn no_table(name: &str) -> Error {
    Error::not_found(format!("there is no table {name:?}")).with_table(name)
}

async fn find_table(shared: &Shared, name: &str) -> Result<Arc<dyn Table>> {
    let table = shared
        .catalog
        .table(name)
        .await
        .map_err(|error| error.with_table(name))?;
    table.ok_or_else(|| no_table(name))
}

/// Refuses a table that an identity may not read, by this name or by the one that it is listed under.
async fn check_table(shared: &Shared, name: &str, identity: &Identity) -> Result<()> {
    identity.check_read(name)?;
    if identity.reads_all() {
        return Ok(());
    }
    let listed = shared.catalog.listed_name(name).await;
    let listed = listed.map_err(|error| error.with_table(name))?;
    match identity.may_read(&listed) {
        true => Ok(()),
        // As the other names are that are granted and stand for nothing.
        false => Err(no_table(name)),
    }
}

pub(super) async fn list_tables(
    shared: &Shared,
    list: &messages::ListTables,
    identity: &Identity,
) -> Result<response::Kind> {
    let mut after = Some(list.page_token.clone()).filter(|token| !token.is_empty());
    let mut tables: Vec<messages::TableEntry> = Vec::new();
    let mut is_last = false;
    // What is not granted must not show in where a page ends either.
    while !is_last && tables.len() <= PAGE_NAMES {
        let catalog = &shared.catalog;
        let entries = catalog.list(&list.prefix, after.as_deref(), PAGE_NAMES);
        let entries = entries.await?;
        is_last = entries.len() < PAGE_NAMES;
        after = entries.last().map(|entry| entry.name.clone());
        let granted = entries
            .into_iter()
            .filter(|entry| identity.may_read(&entry.name));
        tables.extend(granted.map(|entry| messages::TableEntry {
            name: entry.name,
            kind: entry.kind.as_str().to_owned(),
        }));
    }
    let is_more = tables.len() > PAGE_NAMES;
    tables.truncate(PAGE_NAMES);
    let page_token = tables
        .last()
        .filter(|_| is_more)
        .map(|entry| entry.name.clone())
        .unwrap_or_default();
    Ok(response::Kind::Tables(messages::Tables {
        tables,
        page_token,
    }))
}

pub(super) async fn describe_table(
    shared: &Shared,
    describe: &messages::DescribeTable,
    identity: &Identity,
) -> Result<response::Kind> {
    check_table(shared, &describe.name, identity).await?;
    let table = find_table(shared, &describe.name).await?;
    let snapshot = Some(describe.snapshot.as_str()).filter(|snapshot| !snapshot.is_empty());
    let info = table
        .describe(&describe.name, snapshot)
        .await
        .map_err(|error| error.with_table(&describe.name))?;
    Ok(response::Kind::TableInfo(info.to_proto()?))
}

/// Refuses a scan of what an identity may not read.
async fn check_grants(shared: &Shared, identity: &Identity, request: &ScanRequest) -> Result<()> {
    match &request.source {
        ScanSource::Table(name) => check_table(shared, name, identity).await,
        ScanSource::Sql(_) => identity.check_query(),
    }
}

async fn make_scan(shared: &Shared, request: &ScanRequest) -> Result<Arc<dyn Scan>> {
    let name = request.source_name();
    let table = match &request.source {
        ScanSource::Table(name) => find_table(shared, name).await?,
        ScanSource::Sql(query) => shared.catalog.query(query).await?,
    };
    table
        .plan(request)
        .await
        .map_err(|error| error.with_table(name))
}

/// The scan that a ticket is for: one that is held, or else one planned again on the same snapshot. It is held until the
/// read of it has ended, and a lifetime longer.
pub(super) async fn find_scan(
    shared: &Shared,
    request: messages::ScanRequest,
    ticket: Ticket,
    identity: &Identity,
) -> Result<(Arc<dyn Scan>, Reading)> {
    let key = (ticket.request_digest, ticket.snapshot);
    let lifetime = shared.ticket_lifetime;
    // What was granted when the scan was planned may be granted no more.
    let mut request = ScanRequest::from_proto(&request, &FilterLimits::default())?;
    check_grants(shared, identity, &request).await?;
    if let Some(scan) = shared.leases.find(&key) {
        return Ok((scan, shared.leases.read(key, lifetime)));
    }
    if key.1.starts_with(PLAN_ONLY) {
        return Err(Error::expired(
            "the plan is no longer held by this server: plan the scan again",
        ));
    }
    request.snapshot = Some(key.1.clone());
    let scan = make_scan(shared, &request).await?;
    if scan.snapshot() != Some(key.1.as_str()) {
        return Err(Error::expired(format!(
            "snapshot {:?} is no longer held",
            key.1
        )));
    }
    shared.leases.hold(key.clone(), Arc::clone(&scan), lifetime);
    Ok((scan, shared.leases.read(key, lifetime)))
}

pub(super) async fn plan_scan(
    shared: &Shared,
    plan: &messages::Plan,
    identity: &Identity,
) -> Result<(messages::ScanPlan, Arc<dyn Scan>, Option<u64>)> {
    let wanted = plan.request.clone().unwrap_or_default();
    let request = ScanRequest::from_proto(&wanted, &FilterLimits::default())?;
    check_grants(shared, identity, &request).await?;
    let scan = make_scan(shared, &request).await?;
    shared.counters.plans.fetch_add(1, Ordering::AcqRel);
    let digest = request_digest(&wanted);
    let pinned = match scan.snapshot() {
        Some(snapshot) => snapshot.to_owned(),
        None => format!(
            "{PLAN_ONLY}{}-{}",
            shared.server_id,
            shared.plan_ids.fetch_add(1, Ordering::AcqRel)
        ),
    };
    let locations = |index| match scan.snapshot() {
        Some(_) => shared.replicas.of_partition(index),
        // Nobody else has it.
        None => Vec::new(),
    };
    let expires_at_ms = expiry_ms(SystemTime::now(), shared.ticket_lifetime);
    let partitions = scan
        .partitions()
        .iter()
        .enumerate()
        .map(|(index, partition)| {
            let ticket = shared.ticket_key.seal(&Ticket {
                request_digest: digest,
                snapshot: pinned.clone(),
                partition: index as u64,
                subject: identity.subject.clone(),
                expires_at_ms,
            })?;
            let offer = PartitionOffer {
                ticket,
                locations: locations(index),
                rows: partition.rows,
                bytes: partition.bytes,
                units: partition.units,
                resumable: partition.resumable,
            };
            Ok(offer.into_proto())
        })
        .collect::<Result<_>>()?;
    let answer = messages::ScanPlan {
        snapshot: scan.snapshot().unwrap_or_default().to_owned(),
        schema: ipc::encode_schema(scan.schema())?,
        ordering: scan.ordering().iter().map(SortColumn::to_proto).collect(),
        statistics: Some(scan.statistics().to_proto()?),
        filters: filters_to_proto(scan.filters()),
        partitions,
        valid_for_ms: millis(shared.ticket_lifetime),
        inline: false,
    };
    shared
        .leases
        .hold((digest, pinned), Arc::clone(&scan), shared.ticket_lifetime);
    Ok((answer, scan, request.limit))
}

/// Tickets that are good for longer, in place of ones that are still good.
pub(super) fn renew(
    shared: &Shared,
    renew: &messages::Renew,
    subject: &str,
) -> Result<response::Kind> {
    let lifetime = shared.ticket_lifetime;
    let expires_at_ms = expiry_ms(SystemTime::now(), lifetime);
    let tickets = renew
        .tickets
        .iter()
        .map(|sealed| {
            let ticket = Ticket {
                expires_at_ms,
                ..shared.open_ticket(sealed, subject)?
            };
            shared
                .leases
                .renew(&(ticket.request_digest, ticket.snapshot.clone()), lifetime);
            shared.ticket_key.seal(&ticket)
        })
        .collect::<Result<_>>()?;
    Ok(response::Kind::Renewed(messages::Renewed {
        tickets,
        valid_for_ms: millis(lifetime),
    }))
}
