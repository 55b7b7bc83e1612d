-- Adds charges that were made elsewhere at their own times, once each, even beyond a limit; and floors: what a ledger
-- that was lost had said.
--
-- ARGV after the common ones: 'tell' or 'recover'; the number of charges, and for each: id, time, and for each limit
-- its units; the number of floors, and for each: the limit's name, time, units.
--
-- 'recover' is for a caller to whom a script answered 'lost': whatever the loss, it is let in. Where nobody has begun a
-- new epoch yet, one begins here. What survives is always a beginning of the history: where it reaches up to the sequence
-- that the caller has heard of, through every epoch since, and holds the caller's newest charge, floors are not needed.
-- Such a caller sends its floors first and its newest charge last.
--
-- Reply: 'absorbed', epoch, sequence, now, '1' where floors were not needed.
-- Cost: O(log n + BLOCK) a charge.

local old = open_archive()
local mode = word()

local function read_charges()
  local charges = {}
  for place = 1, number() do
    local charge = { id = word(), at = number(), units = {} }
    for index = 1, #limits do
      charge.units[index] = number()
    end
    charges[place] = charge
  end
  return charges
end

local function read_floors()
  local told_floors = {}
  for place = 1, number() do
    told_floors[place] = { name = word(), at = number(), used = number() }
  end
  return told_floors
end

-- Parts the block that holds an instant, if it has grown too long; says whether it had.
local function part(at)
  local first, last = old.block_start(at), old.block_end(at)
  local low, high = first and '(' .. first or '-inf', last or '+inf'
  local is_long = call('ZCOUNT', LOG, low, high) > LONGEST_BLOCK
  if is_long then
    old.mark(tonumber(call('ZRANGEBYSCORE', LOG, low, high, 'WITHSCORES', 'LIMIT', BLOCK, 1)[2]))
  end
  return is_long
end

local function absorb(charge)
  local known = old.knows(charge.id)
  if old.is_forgotten(charge.at) or (known and call('HGET', UNITS, charge.id)) then
    return
  end
  -- One in the log without units was denied half-way: it is in no sum.
  local at = max(math.min(charge.at, now), known or 0)
  old.remove_forgotten(charge.id)
  local sums = {}
  for index, limit in ipairs(limits) do
    local units = charge.units[index]
    if units > 0 then
      sums[limit.code] = units
      old.add_to_total(limit.code, at, units)
      old.add_to_floors(limit.name, at, units)
    end
  end
  old.add_to_block(at, sums)
  old.log(charge.id, at, sums)
  return at
end

local function is_known_floor(new)
  for _, floor in ipairs(floors) do
    if floor.name == new.name and floor.at == new.at and floor.used >= new.used then
      return true
    end
  end
end

local function set_floor(floor)
  floor.at = math.min(floor.at, now)
  if is_known_floor(floor) then
    return
  end
  local limit = old.limit_named(floor.name)
  floor.after = limit and old.between(limit.code, floor.at + 1, nil) or 0
  floors[#floors + 1] = floor
end

-- Floors are compared with the ledger's time, which passes them only when all of them are set.
local function pass_floors()
  for _, floor in ipairs(floors) do
    state[NEWEST] = max(state[NEWEST], floor.at + 1)
  end
end

local charges, new_floors = read_charges(), read_floors()
if skew or (loss and mode ~= 'recover') then
  return objection
end
if not stored or old.lacks_units or (loss == 'behind' and not call('ZRANGE', LOG, 0, 0)[1]) then
  old.empty()
end
local intact = mode == 'recover' and (seen_newest == '' or old.knows(seen_newest)) and old.survived()
if loss == 'behind' then
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
commit(true)
-- Where a permission lacks for that, what was told is whole.
local parted = false
for _, at in ipairs(grown) do
  parted = part(at) or parted
end
if parted then
  commit(true)
end
return { 'absorbed', state[EPOCH], state[SEQUENCE], now, intact and '1' or '0' }
