//! The contract of the store in its simplest form: every revision is a map of its own.

use crate::support::{CompareReq, DeleteReq, Event, Kv, OpReq, PutReq, RangeReq, Response, TxnReq};
use quorate_etcd::EtcdError;
use quorate_types::{AgreedTime, Span};
use std::collections::{BTreeMap, BTreeSet};

type Keys = BTreeMap<Vec<u8>, Kv>;

#[derive(Clone)]
pub(crate) struct Model {
    /// What there was at each revision, from 0.
    states: Vec<Keys>,
    events: Vec<Event>,
    compacted: i64,
    leases: BTreeMap<i64, (i64, AgreedTime)>,
}

pub(crate) fn within(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    match end {
        [] => key == start,
        [0] => key >= start,
        end => key >= start && key < end,
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        Self { states: vec![Keys::new(); 2], events: vec![], compacted: 0, leases: BTreeMap::new() }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.states.len() as i64 - 1
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(crate) fn leases(&self) -> Vec<i64> {
        self.leases.keys().copied().collect()
    }

    fn newest(&self) -> &Keys {
        self.states.last().expect("there is a first state")
    }

    // Reads.

    fn check_range(&self, request: &RangeReq) -> Result<(), EtcdError> {
        if request.key.is_empty() {
            Err(EtcdError::EmptyKey)
        } else if request.revision > self.revision() {
            Err(EtcdError::FutureRevision)
        } else if request.revision > 0 && request.revision < self.compacted {
            Err(EtcdError::Compacted)
        } else {
            Ok(())
        }
    }

    fn check_range_in_txn(&self, request: &RangeReq) -> Result<(), EtcdError> {
        let lowest = if self.compacted == 0 { -1 } else { self.compacted };
        if request.revision != 0 && request.revision < lowest {
            return Err(EtcdError::Compacted);
        }
        self.check_range(request)
    }

    pub(crate) fn range(&self, request: &RangeReq) -> Result<Response, EtcdError> {
        self.check_range(request)?;
        Ok(self.range_in(request, self.newest(), self.revision()))
    }

    fn range_in(&self, request: &RangeReq, newest: &Keys, revision: i64) -> Response {
        let state = if request.revision > 0 && request.revision < revision {
            &self.states[request.revision as usize]
        } else {
            newest
        };
        let mut kvs: Vec<Kv> =
            state.values().filter(|kv| within(&kv.key, &request.key, &request.end)).cloned().collect();
        let count = kvs.len() as i64;
        if request.count_only {
            return Response { revision, count, ..Response::default() };
        }
        let [min_mod, max_mod, min_create, max_create] = request.bounds;
        kvs.retain(|kv| min_mod == 0 || kv.modified >= min_mod);
        kvs.retain(|kv| max_mod == 0 || kv.modified <= max_mod);
        kvs.retain(|kv| min_create == 0 || kv.create >= min_create);
        kvs.retain(|kv| max_create == 0 || kv.create <= max_create);
        // Without an order, what is sorted is what the limit leaves, and one more.
        if request.order == 0 && request.bounds == [0; 4] && request.limit > 0 {
            kvs.truncate(request.limit as usize + 1);
        }
        let number = |kv: &Kv| match request.target {
            1 => kv.version,
            2 => kv.create,
            3 => kv.modified,
            _ => 0,
        };
        let value = |kv: &Kv| if request.target == 4 { kv.value.clone() } else { vec![] };
        let key = |kv: &Kv| if request.target == 0 { kv.key.clone() } else { vec![] };
        if request.order == 2 {
            kvs.sort_by_key(|kv| std::cmp::Reverse((number(kv), value(kv), key(kv))));
        } else {
            kvs.sort_by_key(|kv| (number(kv), value(kv), key(kv)));
        }
        let more = request.limit > 0 && kvs.len() as i64 > request.limit;
        if more {
            kvs.truncate(request.limit as usize);
        }
        if request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        Response { revision, kvs, more, count, ..Response::default() }
    }

    pub(crate) fn events(
        &self,
        from: i64,
        (key, end): (&[u8], &[u8]),
        (no_put, no_delete, prev_kv): (bool, bool, bool),
    ) -> Result<Vec<Event>, EtcdError> {
        if from < self.compacted {
            return Err(EtcdError::Compacted);
        }
        let wanted = self.events.iter().filter(|(deletes, kv, _)| {
            kv.modified >= from && within(&kv.key, key, end) && !(if *deletes { no_delete } else { no_put })
        });
        let shown = wanted.cloned().map(|(deletes, kv, before)| {
            let before = before.filter(|_| prev_kv && kv.modified > self.compacted);
            (deletes, kv, before)
        });
        Ok(shown.collect())
    }

    // Changes.

    fn put_in(&mut self, keys: &mut Keys, request: &PutReq) -> Response {
        let modified = self.revision() + 1;
        let before = keys.get(&request.key).cloned();
        let old = before.clone().unwrap_or_default();
        let kv = Kv {
            key: request.key.clone(),
            create: if old.create == 0 { modified } else { old.create },
            modified,
            version: old.version + 1,
            value: if request.ignore_value { old.value } else { request.value.clone() },
            lease: if request.ignore_lease { old.lease } else { request.lease },
        };
        self.events.push((false, kv.clone(), before.clone()));
        keys.insert(request.key.clone(), kv);
        Response { kvs: before.into_iter().filter(|_| request.prev_kv).collect(), ..Response::default() }
    }

    fn delete_in(&mut self, keys: &mut Keys, request: &DeleteReq) -> Response {
        let doomed: Vec<Kv> =
            keys.values().filter(|kv| within(&kv.key, &request.key, &request.end)).cloned().collect();
        for kv in &doomed {
            keys.remove(&kv.key);
            let gone = Kv { key: kv.key.clone(), modified: self.revision() + 1, ..Kv::default() };
            self.events.push((true, gone, Some(kv.clone())));
        }
        let count = doomed.len() as i64;
        Response { count, kvs: if request.prev_kv { doomed } else { vec![] }, ..Response::default() }
    }

    /// Keeps the keys as the newest revision, if there were changes.
    fn commit(&mut self, keys: Keys, events_before: usize) -> i64 {
        if self.events.len() > events_before {
            self.states.push(keys);
        }
        self.revision()
    }

    fn check_put(&self, request: &PutReq) -> Result<(), EtcdError> {
        if request.key.is_empty() {
            Err(EtcdError::EmptyKey)
        } else if request.ignore_value && !request.value.is_empty() {
            Err(EtcdError::ValueProvided)
        } else if request.ignore_lease && request.lease != 0 {
            Err(EtcdError::LeaseProvided)
        } else {
            Ok(())
        }
    }

    fn check_put_state(&self, request: &PutReq) -> Result<(), EtcdError> {
        let ignores = request.ignore_value || request.ignore_lease;
        if ignores && !self.newest().contains_key(&request.key) {
            Err(EtcdError::KeyNotFound)
        } else if request.lease != 0 && !self.leases.contains_key(&request.lease) {
            Err(EtcdError::LeaseNotFound)
        } else {
            Ok(())
        }
    }

    pub(crate) fn put(&mut self, request: &PutReq) -> Result<Response, EtcdError> {
        self.check_put(request)?;
        if request.lease != 0 && !self.leases.contains_key(&request.lease) {
            return Err(EtcdError::LeaseNotFound);
        }
        self.check_put_state(request)?;
        let (mut keys, events) = (self.newest().clone(), self.events.len());
        let response = self.put_in(&mut keys, request);
        Ok(Response { revision: self.commit(keys, events), ..response })
    }

    pub(crate) fn delete(&mut self, request: &DeleteReq) -> Result<Response, EtcdError> {
        if request.key.is_empty() {
            return Err(EtcdError::EmptyKey);
        }
        let (mut keys, events) = (self.newest().clone(), self.events.len());
        let response = self.delete_in(&mut keys, request);
        Ok(Response { revision: self.commit(keys, events), ..response })
    }

    // Transactions.

    fn check_txn(&self, txn: &TxnReq) -> Result<(), EtcdError> {
        if txn.compare.iter().any(|compare| compare.key.is_empty()) {
            return Err(EtcdError::EmptyKey);
        }
        for operation in txn.success.iter().chain(&txn.failure) {
            match operation {
                OpReq::Range(request) if request.key.is_empty() => return Err(EtcdError::EmptyKey),
                OpReq::Delete(request) if request.key.is_empty() => return Err(EtcdError::EmptyKey),
                OpReq::Put(request) => self.check_put(request)?,
                OpReq::Txn(txn) => self.check_txn(txn)?,
                OpReq::Range(_) | OpReq::Delete(_) => {}
            }
        }
        if changes_twice(&txn.success) || changes_twice(&txn.failure) {
            return Err(EtcdError::DuplicateKey);
        }
        Ok(())
    }

    fn holds(&self, compare: &CompareReq) -> bool {
        let found: Vec<&Kv> =
            self.newest().values().filter(|kv| within(&kv.key, &compare.key, &compare.end)).collect();
        let test = |kv: &Kv| {
            let order = match compare.target {
                0 => kv.version.cmp(&compare.number),
                1 => kv.create.cmp(&compare.number),
                2 => kv.modified.cmp(&compare.number),
                3 => kv.value.cmp(&compare.value),
                _ => kv.lease.cmp(&compare.number),
            };
            match compare.relation {
                0 => order.is_eq(),
                1 => order.is_gt(),
                2 => order.is_lt(),
                _ => order.is_ne(),
            }
        };
        match found.as_slice() {
            [] => compare.target != 3 && test(&Kv::default()),
            found => found.iter().all(|kv| test(kv)),
        }
    }

    fn taken<'a>(&self, txn: &'a TxnReq) -> (bool, &'a [OpReq]) {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        (succeeded, if succeeded { &txn.success } else { &txn.failure })
    }

    fn check_taken(&self, txn: &TxnReq) -> Result<(), EtcdError> {
        self.taken(txn).1.iter().try_for_each(|operation| match operation {
            OpReq::Range(request) => self.check_range_in_txn(request),
            OpReq::Put(request) => self.check_put_state(request),
            OpReq::Delete(_) => Ok(()),
            OpReq::Txn(txn) => self.check_taken(txn),
        })
    }

    fn txn_in(&mut self, keys: &mut Keys, events: usize, txn: &TxnReq) -> Response {
        let (succeeded, list) = self.taken(txn);
        let mut responses = vec![];
        for operation in list {
            let now = |model: &Self| model.revision() + i64::from(model.events.len() > events);
            let response = match operation {
                OpReq::Range(request) => self.range_in(request, keys, now(self)),
                OpReq::Put(request) => {
                    let response = self.put_in(keys, request);
                    Response { revision: now(self), ..response }
                }
                OpReq::Delete(request) => {
                    let response = self.delete_in(keys, request);
                    Response { revision: now(self), ..response }
                }
                OpReq::Txn(txn) => self.txn_in(keys, events, txn),
            };
            responses.push(response);
        }
        Response { succeeded, responses, ..Response::default() }
    }

    pub(crate) fn txn(&mut self, txn: &TxnReq) -> Result<Response, EtcdError> {
        self.check_txn(txn)?;
        self.check_taken(txn)?;
        let (mut keys, events) = (self.newest().clone(), self.events.len());
        let response = self.txn_in(&mut keys, events, txn);
        Ok(Response { revision: self.commit(keys, events), ..response })
    }

    // Compaction and leases.

    pub(crate) fn compact(&mut self, revision: i64) -> Result<(), EtcdError> {
        if revision <= self.compacted {
            return Err(EtcdError::Compacted);
        }
        if revision > self.revision() {
            return Err(EtcdError::FutureRevision);
        }
        self.compacted = revision;
        Ok(())
    }

    pub(crate) fn grant(&mut self, id: i64, ttl: i64, now: AgreedTime) -> Result<i64, EtcdError> {
        if self.leases.contains_key(&id) {
            return Err(EtcdError::LeaseExists);
        }
        let ttl = ttl.max(2);
        self.leases.insert(id, (ttl, now.plus(Span::from_secs(ttl as u64))));
        Ok(ttl)
    }

    /// What it was granted for; 0 when it is gone.
    pub(crate) fn keep_alive(&mut self, id: i64, now: AgreedTime) -> i64 {
        let Some((ttl, ends)) = self.leases.get_mut(&id) else { return 0 };
        *ends = now.plus(Span::from_secs(*ttl as u64));
        *ttl
    }

    pub(crate) fn revoke(&mut self, id: i64) -> Result<(), EtcdError> {
        self.leases.remove(&id).ok_or(EtcdError::LeaseNotFound)?;
        let (mut keys, events) = (self.newest().clone(), self.events.len());
        for key in self.keys_of(id) {
            self.delete_in(&mut keys, &DeleteReq { key, ..DeleteReq::default() });
        }
        self.commit(keys, events);
        Ok(())
    }

    pub(crate) fn keys_of(&self, id: i64) -> Vec<Vec<u8>> {
        self.newest().values().filter(|kv| kv.lease == id).map(|kv| kv.key.clone()).collect()
    }

    /// Whole seconds left, and what was granted.
    pub(crate) fn time_to_live(&self, id: i64, now: AgreedTime) -> Option<(i64, i64)> {
        self.leases.get(&id).map(|(ttl, ends)| ((ends.since(now).millis() / 1000) as i64, *ttl))
    }

    /// Leases whose time has come end, the first first.
    pub(crate) fn pass(&mut self, now: AgreedTime) {
        loop {
            let next = self.leases.iter().map(|(id, (_, ends))| (*ends, *id as u64)).min();
            match next.filter(|(ends, _)| *ends <= now) {
                Some((_, id)) => self.revoke(id as i64).expect("it is there"),
                None => return,
            }
        }
    }
}

/// What one list may put and delete; `None`: one key twice. A put and a delete of the same key are one too many where etcd sees them:
/// on one level, or the put in a transaction within and the delete on the level above or in one before it.
fn changes(list: &[OpReq]) -> Option<(BTreeSet<Vec<u8>>, Vec<DeleteReq>)> {
    let mut puts = BTreeSet::new();
    let mut deletes: Vec<DeleteReq> = vec![];
    // "From a key on" counts as nothing there, as in etcd.
    let deleted = |deletes: &[DeleteReq], key: &[u8]| {
        deletes.iter().any(|one| one.end != [0] && within(key, &one.key, &one.end))
    };
    deletes.extend(list.iter().filter_map(|operation| match operation {
        OpReq::Delete(request) => Some(request.clone()),
        _ => None,
    }));
    for operation in list {
        let OpReq::Txn(txn) = operation else { continue };
        let (before, deleted_before) = (puts.clone(), deletes.clone());
        for branch in [&txn.success, &txn.failure] {
            let (inner, inner_deletes) = changes(branch)?;
            if inner.iter().any(|key| before.contains(key) || deleted(&deleted_before, key)) {
                return None;
            }
            puts.extend(inner);
            deletes.extend(inner_deletes);
        }
    }
    for operation in list {
        let OpReq::Put(request) = operation else { continue };
        if !puts.insert(request.key.clone()) || deleted(&deletes, &request.key) {
            return None;
        }
    }
    Some((puts, deletes))
}

fn changes_twice(list: &[OpReq]) -> bool {
    changes(list).is_none()
}
