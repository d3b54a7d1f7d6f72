//! One request and its response: connect, write, read, end.

use std::io;

use assay_reactor::{Interest, now_ns};
use assay_record::{Outcome, Phase};

use super::Engine;
use super::offer::PAUSE_NS;
use crate::connection::{ConnectionState, token};
use crate::response::ResponseEnd;
use crate::transport::{ReadResult, Transport};
use crate::{Arrivals, Connections, FLOOD_BYTES};

impl Engine<'_> {
    /// Opens a connection for the slot's request: at the address that connected last, then at the others.
    pub(super) fn open(&mut self, slot: u32) {
        let mut error = None;
        loop {
            let now = self.now();
            let addresses = self.trial.endpoint.addresses();
            let Some(exchange) = self.slots[slot as usize].exchange.as_mut() else { return };
            exchange.row.record.connect_start_ns.get_or_insert(now);
            if exchange.tries == addresses.len() {
                return self.fail_to_connect(slot, error);
            }
            let address = &addresses[(self.address + exchange.tries) % addresses.len()];
            exchange.tries += 1;
            self.client.connections_opened += 1;
            let made = Transport::connect(address, self.trial.endpoint.source(), self.tls.as_ref())
                .and_then(|(made, stands)| self.watch(slot, made, stands));
            self.opening_ns += self.now() - now;
            match made {
                Ok(true) => return self.shake_hands(slot),
                Ok(false) => return,
                Err(refused) => error = Some(refused),
            }
        }
    }

    /// Puts a new connection into the slot and registers it with the poller. Returns true if it is already connected.
    fn watch(&mut self, slot: u32, transport: Transport, stands: bool) -> io::Result<bool> {
        let place = &mut self.slots[slot as usize];
        let interest = if stands { Interest::Read } else { Interest::Write };
        self.poller.add(&transport.socket, token(slot, place.generation), interest)?;
        place.transport = Some(transport);
        place.watches_write = !stands;
        place.state = ConnectionState::Connecting;
        Ok(stands)
    }

    /// Handles the result of a TCP connect.
    pub(super) fn handle_connect(&mut self, slot: u32) {
        match self.slots[slot as usize].transport.as_ref().map_or(Ok(()), Transport::connect_result) {
            Ok(()) => self.shake_hands(slot),
            Err(error) => self.connect_elsewhere(slot, error),
        }
    }

    fn connect_elsewhere(&mut self, slot: u32, error: io::Error) {
        self.slots[slot as usize].disconnect();
        let tried_all = self.slots[slot as usize]
            .exchange
            .as_ref()
            .is_none_or(|exchange| exchange.tries == self.trial.endpoint.addresses().len());
        if tried_all { self.fail_to_connect(slot, Some(error)) } else { self.open(slot) }
    }

    fn fail_to_connect(&mut self, slot: u32, error: Option<io::Error>) {
        let reason =
            error.map_or_else(|| "the endpoint has no address".to_owned(), |error| format!("failed to connect: {error}"));
        let at_ns = self.now();
        self.finish(slot, ResponseEnd { outcome: Outcome::ConnectError, reason: Some(reason), at_ns, reusable: false });
    }

    /// Continues the TLS handshake, if there is one; then writes the request.
    pub(super) fn shake_hands(&mut self, slot: u32) {
        let now = self.now();
        let place = &mut self.slots[slot as usize];
        let (Some(transport), Some(exchange)) = (&mut place.transport, &mut place.exchange) else { return };
        match transport.shake_hands() {
            Ok(true) => {
                exchange.row.record.connect_end_ns =
                    Some(if self.tls.is_some() { now_ns() - self.trial.start_at_ns } else { now });
                self.address = (self.address + exchange.tries.saturating_sub(1)) % self.trial.endpoint.addresses().len().max(1);
                exchange.tries = 0;
                place.state = ConnectionState::Busy;
                self.write(slot);
            }
            Ok(false) => {
                let wants_write = transport.wants_write();
                place.state = ConnectionState::Handshaking;
                self.watch_write(slot, wants_write);
            }
            Err(error) => self.connect_elsewhere(slot, error),
        }
    }

    /// Writes as much of the slot's request as possible.
    pub(super) fn write(&mut self, slot: u32) {
        let started = self.now();
        let place = &mut self.slots[slot as usize];
        let (Some(transport), Some(exchange)) = (&mut place.transport, &mut place.exchange) else { return };
        exchange.row.record.sent_ns.get_or_insert(started);
        let written = write_all(transport, &exchange.wire, &mut exchange.written);
        exchange.row.record.request_bytes = exchange.written as u64;
        match written {
            Ok(()) => {
                exchange.is_written = true;
                let done = now_ns() - self.trial.start_at_ns;
                exchange.row.record.write_done_ns = Some(done);
                if exchange.row.record.sent_ns == Some(started) {
                    exchange.delays.write_ns = done - started;
                }
                exchange.wire = Vec::new();
                if let Some(after_ns) = exchange.cancel_after_ns {
                    let at_ns = done.saturating_add(i64::try_from(after_ns).unwrap_or(i64::MAX));
                    exchange.cancel_at_ns = Some(at_ns);
                    self.cancellations.push(at_ns, slot, exchange.row.record.request_id);
                }
                self.watch_write(slot, false);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.watch_write(slot, true),
            Err(_) if exchange.reused && exchange.written == 0 && transport.writes_all_or_nothing() => self.resend(slot),
            // The peer reads no more of it. The bytes that it sent before it closed can still be read, and so can the end.
            Err(_) => self.watch_write(slot, false),
        }
    }

    /// Sends the slot's request, of which the kernel took no byte, on a new connection. It keeps its first `sent_ns`.
    fn resend(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        place.disconnect();
        if let Some(exchange) = &mut place.exchange {
            exchange.reused = false;
        }
        self.client.resends += 1;
        self.open(slot);
    }

    fn watch_write(&mut self, slot: u32, write: bool) {
        let place = &mut self.slots[slot as usize];
        let Some(transport) = place.transport.as_ref().filter(|_| place.watches_write != write) else { return };
        place.watches_write = write;
        let interest = if write { Interest::ReadWrite } else { Interest::Read };
        if let Err(error) = self.poller.modify(&transport.socket, token(slot, place.generation), interest) {
            let at_ns = self.now();
            self.handle_close(slot, Some(error), at_ns);
        }
    }

    /// Reads once and follows the response. Returns the read's stamp.
    pub(super) fn read(&mut self, slot: u32) -> i64 {
        let mut buffer = std::mem::take(&mut self.buffer);
        let at_ns = self.read_into(slot, &mut buffer);
        self.buffer = buffer;
        at_ns
    }

    fn read_into(&mut self, slot: u32, buffer: &mut [u8]) -> i64 {
        let place = &mut self.slots[slot as usize];
        let Some(transport) = &mut place.transport else { return self.now() };
        let (mut got, stamp) = transport.read(buffer);
        let at_ns = stamp - self.trial.start_at_ns;
        let delay_ns = self.delays.record_read(at_ns);
        let cancel_at_ns = self.slots[slot as usize].exchange.as_ref().and_then(|exchange| exchange.cancel_at_ns);
        if cancel_at_ns.is_some_and(|cancel_at_ns| cancel_at_ns <= at_ns) {
            // These bytes came after its time, so that the client would not have read them if it had not been late.
            self.cancel(slot, at_ns);
            return at_ns;
        }
        if self.timeout_at_ns(slot) <= at_ns {
            self.give_up(slot, Outcome::Timeout, "its time limit", at_ns);
            return at_ns;
        }
        loop {
            let place = &mut self.slots[slot as usize];
            let (Some(transport), Some(exchange)) = (&mut place.transport, &mut place.exchange) else { return at_ns };
            match got {
                Ok(ReadResult::Nothing) => return at_ns,
                Ok(ReadResult::Bytes { count, more }) => {
                    self.client.reads += 1;
                    self.client.read_bytes += count as u64;
                    if count == buffer.len() {
                        self.client.full_reads += 1;
                        self.client.full_read_bytes += count as u64;
                    }
                    let ending = place.reader.take(&buffer[..count], at_ns, &mut exchange.row);
                    exchange.delays.record_read(&exchange.row.record, at_ns, delay_ns);
                    if let Some(mut ending) = ending {
                        ending.reusable &= !more;
                        self.finish(slot, ending);
                        return at_ns;
                    }
                    if !more {
                        return at_ns;
                    }
                    got = transport.read_rest(buffer);
                }
                Ok(ReadResult::Closed) => {
                    self.handle_close(slot, None, at_ns);
                    return at_ns;
                }
                Err(error) => {
                    self.handle_close(slot, Some(error), at_ns);
                    return at_ns;
                }
            }
        }
    }

    /// Ends a request whose connection is gone: the endpoint may have read it.
    fn handle_close(&mut self, slot: u32, why: Option<io::Error>, at_ns: i64) {
        let place = &mut self.slots[slot as usize];
        let Some(exchange) = &mut place.exchange else { return };
        let ending = place.reader.close(why.as_ref(), at_ns, &mut exchange.row);
        self.finish(slot, ending);
    }

    /// Ends a request because the client gives up.
    pub(super) fn give_up(&mut self, slot: u32, outcome: Outcome, because: &str, at_ns: i64) {
        let place = &mut self.slots[slot as usize];
        let Some(exchange) = &mut place.exchange else { return self.order.remove(slot) };
        let record = &exchange.row.record;
        let missing = match (record.connect_end_ns, record.first_byte_ns) {
            (None, _) if !exchange.reused => "no connection",
            (_, None) => "no response",
            (_, Some(_)) => "no complete response",
        };
        let ending = place.reader.give_up(outcome, &format!("{missing} before {because}"), at_ns, &mut exchange.row);
        self.finish(slot, ending);
    }

    /// Ends a request: its row is output, its connection is kept or closed, its user is free.
    fn finish(&mut self, slot: u32, ending: ResponseEnd) {
        let place = &mut self.slots[slot as usize];
        let Some(exchange) = place.exchange.take() else { return };
        let mut row = exchange.row;
        row.record.outcome = ending.outcome;
        row.record.error = ending.reason;
        row.record.end_ns = Some(ending.at_ns);
        if ending.outcome == Outcome::Ok && row.record.phase == Phase::Measured {
            let lateness_ns = self.trial.connections.client_lateness_ns(&row.record);
            self.delays.record_request(&row.record, lateness_ns, exchange.delays);
        }
        self.client.events += place.reader.events();
        if ending.outcome == Outcome::EventTooLarge || row.record.response_bytes > FLOOD_BYTES {
            self.client.excess_bytes += row.record.response_bytes;
        }
        let text = place.reader.take_text();
        let keeps = match self.trial.connections {
            Connections::Pooled => ending.reusable,
            Connections::Never => false,
            Connections::Sticky => ending.reusable && exchange.session.is_some(),
        };
        if keeps && exchange.is_written {
            place.state = ConnectionState::Idle;
            place.kept_for = exchange.session.filter(|_| self.trial.connections == Connections::Sticky);
            match place.kept_for {
                Some(key) => drop(self.of_sessions.insert(key, (slot, place.generation))),
                None => self.idle.push((slot, place.generation)),
            }
        } else {
            place.disconnect();
            self.vacant.push(slot);
        }
        self.order.remove(slot);
        self.in_flight -= 1;
        if self.trial.over_saturation.is_some_and(|most| self.in_flight <= most.in_flight) {
            self.saturated_since_ns = None;
        }
        if let Some(places) = &mut self.places {
            places.free(ending.at_ns);
            self.next_due_ns = self.next_due_ns.min(ending.at_ns);
        }
        match exchange.session.zip(row.record.turn) {
            Some((key, turn)) => row.record.session_done = self.end_turn(key, turn, ending.outcome, ending.at_ns, text),
            None => self.free_user(ending.outcome, ending.at_ns),
        }
        self.record_end(row, ending.at_ns);
    }

    pub(super) fn free_user(&mut self, outcome: Outcome, at_ns: i64) {
        if !matches!(self.trial.arrivals, Arrivals::Closed { .. }) || self.offered_to_ns.is_some() {
            return;
        }
        if matches!(outcome, Outcome::ConnectError | Outcome::ConnectionClosed) {
            let until = self.now() + PAUSE_NS;
            self.pauses.push_back(until);
            self.next_due_ns = self.next_due_ns.min(until);
        } else {
            self.free_users += 1;
            self.next_due_ns = self.next_due_ns.min(at_ns);
        }
    }

    /// Handles an event of a kept-alive connection, which can only be its end, because there is no request on it. A session in a pause
    /// has no connection from then on.
    pub(super) fn end_idle(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        place.disconnect();
        if let Some(key) = place.kept_for.take() {
            self.of_sessions.remove(&key);
        }
        self.vacant.push(slot);
        // Its entry in the idle list is skipped when it is popped; the list is cleaned so that such entries do not accumulate.
        if self.idle.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.idle.retain(|(slot, generation)| slots[*slot as usize].generation == *generation);
        }
    }
}

/// Writes until all is written or the socket takes no more.
fn write_all(transport: &mut Transport, wire: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < wire.len() {
        match transport.write(&wire[*written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    transport.flush()
}
