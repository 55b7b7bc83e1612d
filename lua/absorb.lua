-- Adds charges that were made elsewhere at their own times, once each, even beyond a limit (L17); and floors: what a lost
-- ledger had reported (L40).
--
-- ARGV after the caller's terms: 'tell' or 'recover'; the number of charges, and for each: id, time, the number of components
-- of its cost, and for each: the number of the limit, units; the number of floors, and for each: the limit's name, time, units.
--
-- 'recover' is for a caller to whom a script answered 'lost': it is accepted whatever the loss. Unless a new epoch has begun,
-- one begins here (L36). What survives is always a beginning of the history: when it reaches the sequence that the caller
-- has seen, through every epoch since, and holds the caller's newest charge, floors are not needed (L41). Such a caller
-- sends its floors first and its newest charge last.
--
-- Reply: 'absorbed', epoch, sequence, now, '1' when floors were not needed.
-- Cost: O(log n + BLOCK) a charge.

local log, changes = open_log(ledger), open_changes(ledger)
local mode = word()

local function read_charges()
  local charges = {}
  for place = 1, number() do
    local charge = { id = word(), at = number(), units = {} }
    for component = 1, number() do
      charge.units[component] = { limit = limits[number()], units = number() }
    end
    charges[place] = charge
  end
  return charges
end

local function read_floors()
  local sent_floors = {}
  for place = 1, number() do
    sent_floors[place] = { name = word(), at = number(), used = number() }
  end
  return sent_floors
end

-- Divides the block that holds an instant, if it has grown too long; says whether it had.
local function part(at)
  local first, last = log.block_start(at), log.block_end(at)
  local low, high = first and '(' .. first or '-inf', last or '+inf'
  local is_long = call('ZCOUNT', KEYS[2], low, high) > LONGEST_BLOCK
  if is_long then
    changes.mark(tonumber(call('ZRANGEBYSCORE', KEYS[2], low, high, 'WITHSCORES', 'LIMIT', BLOCK, 1)[2]))
  end
  return is_long
end

local function absorb(charge)
  local known = log.charged_at(charge.id)
  if log.is_forgotten(charge.at) or (known and call('HGET', KEYS[3], charge.id)) then
    return
  end
  -- One in the log without units was denied half-way: it is in no sum.
  local at = math.max(math.min(charge.at, now), known or 0)
  changes.remove_forgotten(charge.id)
  local sums = {}
  for _, component in ipairs(charge.units) do
    local limit, units = component.limit, component.units
    sums[limit.code] = units
    changes.add_to_total(limit.code, at, units)
    changes.add_to_floors(limit.name, at, units)
  end
  changes.add_to_block(at, sums)
  changes.record(charge.id, at, sums, true)
  return at
end

local function is_known_floor(new)
  for _, floor in ipairs(ledger.floors[new.name] or {}) do
    if floor.at == new.at and floor.used >= new.used then
      return true
    end
  end
end

local function set_floor(floor)
  floor.at = math.min(floor.at, now)
  if is_known_floor(floor) then
    return
  end
  local limit, floors = log.limit_named(floor.name), ledger.floors
  floor.after = limit and log.between(limit.code, floor.at + 1, nil) or 0
  floors[floor.name] = floors[floor.name] or {}
  table.insert(floors[floor.name], floor)
end

-- Floors are compared with the ledger's time, which passes them only when all of them are set.
local function pass_floors()
  for _, floors in pairs(ledger.floors) do
    for _, floor in ipairs(floors) do
      state[NEWEST] = math.max(state[NEWEST], floor.at + 1)
    end
  end
end

-- Whether all survived that the caller had seen, through every epoch that ended since.
local function survived()
  if ledger.loss == 'behind' or ledger.stored_sequence < seen_sequence then
    return false
  end
  -- An epoch that ended before the one that the caller has seen says nothing about what it has seen.
  if ledger.stored_epoch == seen_epoch then
    return true
  end
  local found = false
  for epoch, sequence in string.gmatch(call('HGET', KEYS[1], 'epochs') or '', '(%S+) (%d+)\n') do
    found = found or epoch == seen_epoch
    if found and tonumber(sequence) < seen_sequence then
      return false
    end
  end
  return found
end

local charges, new_floors = read_charges(), read_floors()
if ledger.skew or (ledger.loss and mode ~= 'recover') then
  return ledger.objection
end
if not stored or log.lacks_units or (ledger.loss == 'behind' and not call('ZRANGE', KEYS[2], 0, 0)[1]) then
  changes.empty()
end
local intact = mode == 'recover' and (seen_newest == '' or log.charged_at(seen_newest)) and survived()
if ledger.loss == 'behind' then
  state[EPOCH] = false
end
local grown = {}
for _, charge in ipairs(charges) do
  grown[#grown + 1] = absorb(charge)
end
if #grown > 0 or #new_floors > 0 then
  state[SEQUENCE] = state[SEQUENCE] + STRIDE
end
if not intact then
  for _, floor in ipairs(new_floors) do
    set_floor(floor)
  end
  pass_floors()
end
commit(ledger, true)
-- When a permission lacks for that, what was sent is whole.
local parted = false
for _, at in ipairs(grown) do
  parted = part(at) or parted
end
if parted then
  commit(ledger, true)
end
return { 'absorbed', state[EPOCH], state[SEQUENCE], now, intact and '1' or '0' }
