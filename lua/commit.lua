-- Writes the state. An epoch begins when there is none, or on a server that did not begin it (L36). `renew`: keys may be new.
-- Of what a grant writes only the log can be: as long as there is none, the instant is negative, and every commit renews.
local function commit(ledger, renew)
  local state, now = ledger.state, ledger.now
  if not state[EPOCH] or state[SERVER] ~= ledger.server then
    if ledger.stored_epoch then
      open_changes(ledger).end_epoch()
    end
    state[EPOCH], state[SERVER] = ledger.fresh_epoch, ledger.server
    redis.call('HSET', KEYS[3], '', '0')
  end
  renew = renew or now >= state[RENEWAL]
  if renew then
    state[RENEWAL] = redis.call('ZRANGE', KEYS[2], 0, 0)[1] and now + math.floor(ledger.keep / 16) or -now
  end
  if state.apart or #state > FLOORS + MOST_TOGETHER * NEXT_PLACE then
    open_changes(ledger).write_apart()
  else
    state[FLOORS] = next(ledger.floors) ~= nil and open_changes(ledger).write_floors()
    redis.call('HSET', KEYS[1], 'state', cmsgpack.pack(unpack(state)))
  end
  if renew then
    open_changes(ledger).keep_alive()
  end
end
