-- Sets the true cost of a charge, at the charge's own time, even beyond a limit (L14). An unknown id is recorded as settled,
-- at now: the charge that arrives later is then not counted (L15).
--
-- ARGV after the caller's terms: the id; for each limit: its units.
-- Reply: 'settled', epoch, sequence, now.
-- Cost: O(log n).

local log, changes = open_log(ledger), open_changes(ledger)
local id = word()
local truth = {}
for index = 1, #limits do
  truth[index] = number()
end

local function settle(at, is_lasting)
  local sums, delta = log.units_of(id), {}
  for index, limit in ipairs(limits) do
    local code = limit.code
    local change = truth[index] - (sums[code] or 0)
    sums[code], delta[code] = truth[index], change
    if change ~= 0 then
      changes.add_to_total(code, at, change)
      changes.add_to_floors(limit.name, at, change)
    end
  end
  changes.add_to_block(at, delta)
  changes.record(id, at, sums, is_lasting)
end

if ledger.objection then
  return ledger.objection
end
if not stored then
  changes.empty()
end
local at = log.charged_at(id)
if not at then
  changes.remove_forgotten(id)
end
settle(at or now, not at or log.is_lasting(call('HGET', KEYS[3], id)))
state[SEQUENCE] = state[SEQUENCE] + STRIDE
commit(ledger, true)
return { 'settled', state[EPOCH], state[SEQUENCE], now }
