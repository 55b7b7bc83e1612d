-- Tells the true cost of a charge, at the charge's own time, even beyond a limit. An unknown id is recorded as settled,
-- at now: the charge that arrives later is then not counted.
--
-- ARGV after the common ones: the id; for each limit: its units.
-- Reply: 'settled', epoch, sequence, now.
-- Cost: O(log n).

local old = open_archive()
local id = word()
local truth = {}
for index = 1, #limits do
  truth[index] = number()
end

local function settle(at)
  local sums, delta = old.units_of(id), {}
  for index, limit in ipairs(limits) do
    local code = limit.code
    local change = truth[index] - (sums[code] or 0)
    sums[code], delta[code] = truth[index], change
    if change ~= 0 then
      old.add_to_total(code, at, change)
      old.add_to_floors(limit.name, at, change)
    end
  end
  old.add_to_block(at, delta)
  old.log(id, at, sums)
end

if objection then
  return objection
end
if not stored then
  old.empty()
end
local at = old.knows(id)
if not at then
  old.remove_forgotten(id)
end
settle(at or now)
state[SEQUENCE] = state[SEQUENCE] + STRIDE
commit(true)
return { 'settled', state[EPOCH], state[SEQUENCE], now }
