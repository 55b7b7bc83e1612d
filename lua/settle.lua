-- Sets the true cost of a charge, at the charge's own time, even beyond a limit (L14). An unknown id is recorded as settled,
-- at now: the charge that arrives later is then not counted (L15).
--
-- ARGV after the caller's terms: the id; the number of components of its cost, and for each: the number of the limit, units;
-- what becomes of units of limits that were not sent: 'keep', or 'ask' for their names.
-- Reply: 'settled', epoch, sequence, now; or 'others', and the names of limits that were not sent and that the charge took
-- from. Then nothing was written.
-- Cost: O(log n).

local log, changes = open_log(ledger), open_changes(ledger)
local id = word()
local truth = {}
for _ = 1, number() do
  local index = number()
  truth[index] = number()
end
local asks = word() == 'ask'

local function settle(at, is_lasting)
  local sums, delta = log.units_of(id), {}
  for index, limit in ipairs(limits) do
    local code = limit.code
    local units = truth[index] or 0
    local change = units - (sums[code] or 0)
    sums[code], delta[code] = units, change
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
if at and asks then
  local others, reply = log.others(call('HGET', KEYS[3], id)), { 'others' }
  for place = 1, #others, 2 do
    reply[#reply + 1] = others[place]
  end
  if #reply > 1 then
    return reply
  end
end
if not at then
  changes.remove_forgotten(id)
end
settle(at or now, not at or log.is_lasting(call('HGET', KEYS[3], id)))
state[SEQUENCE] = state[SEQUENCE] + STRIDE
commit(ledger, true)
return { 'settled', state[EPOCH], state[SEQUENCE], now }
