-- Queries of the log: ids, and sums over a range of charges.

local function open_log(ledger)
  if ledger.log then
    return ledger.log
  end
  local log = {}
  ledger.log = log
  local call = redis.call
  local function text(number)
    return string.format('%d', number)
  end
  local UNITS, LOG, MARKS, SUMS = KEYS[3], KEYS[2], KEYS[4], KEYS[5]

  -- What was charged before this is forgotten.
  log.kept_from = ledger.now - ledger.keep + 1
  -- Ids that were charged before this are forgotten, except lasting ones (L11).
  log.remembered_from = ledger.now - ledger.remember + 1
  local forgets, counted = ledger.forgets, nil
  for place = 1, #forgets, 2 do
    counted = forgets[place] <= ledger.now and forgets[place + 1] or counted
  end
  log.remembered_from = math.min(log.remembered_from, counted or log.remembered_from)
  -- The number of limits in the state.
  log.size = ledger.state.apart and ledger.state.apart.size or (#ledger.state - FIRST_PLACE + 1) / NEXT_PLACE

  -- What is used is unknown when units are gone. A grant that opens no log finds it when it writes its own.
  log.lacks_units = ledger.state[EPOCH] and not call('HGET', UNITS, '')
  if log.lacks_units then
    ledger.loss, ledger.objection = 'behind', ledger.skew or { 'lost', 'behind' }
  end

  local by_name
  -- The limit of this name, if the caller sent it.
  function log.limit_named(name)
    if not by_name then
      by_name = {}
      for _, limit in ipairs(ledger.limits) do
        by_name[limit.name] = limit
      end
    end
    return by_name[name]
  end

  -- The name of the limit of this number.
  function log.name_of(code)
    return ledger.state[FIRST_PLACE + (code - 1) * NEXT_PLACE] or call('HGET', KEYS[1], 'code:' .. code)
  end

  -- Ids.

  -- Whether charges of an instant are forgotten.
  function log.is_forgotten(at)
    return at < log.kept_from
  end

  -- Whether the units say that the id is remembered while the charge may count.
  function log.is_lasting(vector)
    return vector and string.sub(vector, -1) == '+'
  end

  -- When the id was charged; nil when it is unknown or forgotten.
  function log.charged_at(id)
    local at = tonumber(call('ZSCORE', LOG, id) or nil)
    if not at or log.is_forgotten(at) then
      return nil
    end
    return (at >= log.remembered_from or log.is_lasting(call('HGET', UNITS, id))) and at or nil
  end

  -- Sums over the log.

  function log.add_vector(sums, vector, sign)
    vector = vector or ''
    if string.find(vector, ':', 1, true) then
      for number, units in string.gmatch(vector, '(%d+):(%d+)') do
        local code = tonumber(number)
        sums[code] = (sums[code] or 0) + sign * tonumber(units)
      end
      return sums
    end
    local place = 0
    for units in string.gmatch(vector, '%d+') do
      place = place + 1
      sums[place] = (sums[place] or 0) + sign * tonumber(units)
    end
    return sums
  end

  function log.units_of(id)
    return log.add_vector({}, call('HGET', UNITS, id), 1)
  end

  -- The limits that the caller did not send and that a vector has units of: name, units, one after another.
  function log.others(vector)
    local sums, others = log.add_vector({}, vector, 1), {}
    for _, limit in ipairs(ledger.limits) do
      sums[limit.code] = nil
    end
    for code, units in pairs(sums) do
      if units > 0 then
        others[#others + 1], others[#others + 2] = log.name_of(code), units
      end
    end
    return others
  end

  -- Goes through the charges of a range of the log, a bounded number at a time: their ids, and the vector of each; false
  -- where it is gone.
  function log.batches(low, high, batch)
    local offset, ids = 0, nil
    return function()
      if ids and #ids < batch then
        return nil
      elseif ids then
        offset, batch = offset + batch, math.min(batch * 2, 512)
      end
      ids = call('ZRANGEBYSCORE', LOG, low, high, 'LIMIT', text(offset), text(batch))
      if #ids > 0 then
        return ids, call('HMGET', UNITS, unpack(ids))
      end
    end
  end

  -- The units of one limit that a range of the log holds.
  function log.scan(code, low, high)
    local sum = 0
    for _, vectors in log.batches(low, high, LONGEST_BLOCK) do
      for place = 1, #vectors do
        sum = sum + units_in(vectors[place], code)
      end
    end
    return sum
  end

  -- The vector of all units that a range of the log holds.
  function log.scan_vector(low, high)
    local sums = {}
    if log.size == 1 then
      sums[1] = log.scan(1, low, high)
      return vector_of(sums, 1)
    end
    for _, vectors in log.batches(low, high, LONGEST_BLOCK) do
      for place = 1, #vectors do
        log.add_vector(sums, vectors[place], 1)
      end
    end
    return vector_of(sums, log.size)
  end

  -- A block whose sum is gone is added up from its charges.
  local function blocks(code, marks, first)
    local sum = 0
    for start = first, #marks, 1000 do
      for place, vector in ipairs(call('HMGET', SUMS, unpack(marks, start, math.min(start + 999, #marks)))) do
        local mark = start + place - 1
        sum = sum + (vector and units_in(vector, code) or log.scan(code, '(' .. marks[mark - 1], marks[mark]))
      end
    end
    return sum
  end

  -- The units charged of a limit from `from` on and before `before`; to the end when that is nil.
  function log.between(code, from, before)
    if before and from >= before then
      return 0
    end
    local low, high = text(from), before and '(' .. text(before) or '+inf'
    local marks = call('ZRANGEBYSCORE', MARKS, low, high)
    if #marks == 0 then
      return log.scan(code, low, high)
    end
    return log.scan(code, low, marks[1]) + blocks(code, marks, 2) + log.scan(code, '(' .. marks[#marks], high)
  end

  -- Blocks.

  -- The mark that ends the block of an instant; nil for the open block.
  function log.block_end(at)
    return call('ZRANGEBYSCORE', MARKS, text(at), '+inf', 'LIMIT', '0', '1')[1]
  end

  -- The mark before the block of an instant; nil for the first block.
  function log.block_start(at)
    return call('ZREVRANGEBYSCORE', MARKS, '(' .. text(at), '-inf', 'LIMIT', '0', '1')[1]
  end

  return log
end
