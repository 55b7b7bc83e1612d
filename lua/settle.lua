-- Tells the true cost of a charge, at the charge's own time, even beyond a limit. An unknown id is recorded as settled,
-- at now: the charge that arrives later is then not counted.
--
-- ARGV after the common ones: the id; for each limit: its units.
-- Reply: 'settled', epoch, sequence, now.
-- Cost: O(log n).

local id = word()
local truth = {}
for index = 1, #limits do
  truth[index] = number()
end

local function settle_limit(limit, at, before, after)
  if before ~= after then
    add_to_total(limit.name, at, after - before)
    add_to_floors(limit.name, at, after - before)
    put_limit(limit)
  end
end

local function settle(at)
  local old, sums, delta = {}, {}, {}
  add_vector(old, call('HGET', UNITS, id), 1)
  add_vector(sums, call('HGET', UNITS, id), 1)
  for index, limit in ipairs(limits) do
    local code = code_of(limit)
    sums[code] = truth[index]
    delta[code] = truth[index] - (old[code] or 0)
    settle_limit(limit, at, old[code] or 0, truth[index])
  end
  local last = block_end(at)
  if last then
    add_to_block(last, delta)
  end
  log(id, at, sums)
end

local refusal = objection()
if refusal then
  return refusal
end
if not state.epoch or state.server ~= server then
  begin_epoch()
end
local at = knows(id)
if not at then
  remove_forgotten(id)
end
settle(at or now)
commit(true)
return { 'settled', state.epoch, text(state.sequence), text(now) }
