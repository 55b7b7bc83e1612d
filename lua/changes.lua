-- Changes of the log, its blocks, the totals and the floors. `commit` writes the state afterwards.

local function open_changes(ledger)
  if ledger.changes then
    return ledger.changes
  end
  local changes = {}
  ledger.changes = changes
  local function text(number)
    return string.format('%d', number)
  end
  local call, max, log = redis.call, math.max, open_log(ledger)
  local META, LOG, UNITS, MARKS, SUMS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local state, now = ledger.state, ledger.now

  -- Blocks.

  -- Adds to the block that holds an instant. The open one has no sum, and a sum that is gone stays so until it is mended.
  function changes.add_to_block(at, delta)
    local mark = log.block_end(at)
    local sum = mark and call('HGET', SUMS, mark)
    if sum then
      local sums = log.add_vector({}, sum, 1)
      for code, units in pairs(delta) do
        sums[code] = (sums[code] or 0) + units
      end
      call('HSET', SUMS, mark, vector_of(sums, log.size))
    end
  end

  -- Ends a block at `at`, which must be before the newest charge: what is charged later must be later than every mark.
  function changes.mark(at)
    local first = log.block_start(at)
    if at >= state[NEWEST] or log.block_end(at) == text(at) then
      return
    end
    local vector = log.scan_vector(first and '(' .. first or '-inf', text(at))
    changes.add_to_block(at, log.add_vector({}, vector, -1))
    call('ZADD', MARKS, text(at), text(at))
    call('HSET', SUMS, text(at), vector)
  end

  -- What would slow down every charge, done at each BLOCKth, after it: the charges before it become a block.
  function changes.end_block()
    local last = call('ZREVRANGEBYSCORE', LOG, '(' .. text(now), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    if last then
      changes.mark(tonumber(last))
    end
    changes.evict(4 * BLOCK)
    changes.merge(4 * BLOCK)
  end

  -- Totals and floors.

  -- The place of a limit in the state, which is loaded if it has a field of its own.
  function changes.place_of(code)
    local place = FIRST_PLACE + (code - 1) * NEXT_PLACE
    return state[place] and place or state.apart.load(log.name_of(code))
  end

  -- Adds to a limit's total, if what was charged at `at` is in it.
  function changes.add_to_total(code, at, units)
    local place = changes.place_of(code)
    if at >= state[place + HEAD] then
      state[place + TOTAL] = state[place + TOTAL] + units
    end
  end

  function changes.add_to_floors(name, at, units)
    for _, floor in ipairs(ledger.floors[name] or {}) do
      if at > floor.at then
        floor.after = max(floor.after + units, 0)
      end
    end
  end

  -- Begins with an empty log. Redis can evict keys one by one, and a person who deletes keys may forget some: without the
  -- state, the log or the units the others mean nothing. What a total and the floors said becomes one floor a limit, since
  -- the machines send again what they counted.
  function changes.empty()
    -- Without the state, fields of limits mean nothing either.
    for place = ledger.stored and 2 or 1, #KEYS do
      call('PEXPIRE', KEYS[place], '-1')
    end
    for code = 1, log.size do
      local place = changes.place_of(code)
      local name, used = state[place], state[place + TOTAL]
      local limit = log.limit_named(name)
      for _, floor in ipairs(ledger.floors[name] or {}) do
        if floor.at >= (limit and limit.from or log.kept_from) then
          used = max(used, floor.used + floor.after)
        end
      end
      ledger.floors[name] = used > 0 and { { at = state[NEWEST], used = used, after = 0 } } or nil
      state[place + TOTAL] = 0
    end
  end

  -- The log.

  -- Records a charge in the log; the caller moves the totals.
  function changes.record(id, at, sums, is_lasting)
    call('ZADD', LOG, text(at), id)
    call('HSET', UNITS, id, vector_of(sums, log.size) .. (is_lasting and '+' or ''))
    state[NEWEST] = max(state[NEWEST], at)
  end

  -- Removes a forgotten id, before it names a new charge (L11). What it took stays while it may count.
  function changes.remove_forgotten(id)
    local at = tonumber(call('ZSCORE', LOG, id) or nil)
    if not at then
      return
    end
    if log.is_forgotten(at) then
      local sums = log.add_vector({}, call('HGET', UNITS, id), -1)
      for code, units in pairs(sums) do
        changes.add_to_total(code, at, units)
      end
      changes.add_to_block(at, sums)
    else
      local nameless = '\0' .. text(at)
      local sums = log.add_vector(log.units_of(nameless), call('HGET', UNITS, id), 1)
      call('ZADD', LOG, text(at), nameless)
      call('HSET', UNITS, nameless, vector_of(sums, log.size))
    end
    call('ZREM', LOG, id)
    call('HDEL', UNITS, id)
  end

  -- Merging: charges whose ids are forgotten and that count in the same parts become one, at the time of the last.

  -- Whether two charges may be recorded as one at the later: `Account::merges`. No floor may divide them.
  local function are_one(earlier, later)
    for _, limit in ipairs(ledger.limits) do
      local is_apart = not limit.part or math.floor(earlier / limit.part) ~= math.floor(later / limit.part)
      if later >= limit.from and is_apart then
        return false
      end
    end
    for _, floors in pairs(ledger.floors) do
      for _, floor in ipairs(floors) do
        if earlier <= floor.at and floor.at < later then
          return false
        end
      end
    end
    return true
  end

  -- A head between the first and the last of them moves to the first: what it had passed is counted, until it expires.
  local function move_heads(sums, first, last)
    for code in pairs(sums) do
      local place = changes.place_of(code)
      if state[place + HEAD] > first and state[place + HEAD] <= last then
        state[place + TOTAL] = state[place + TOTAL] + log.between(code, first, state[place + HEAD])
        state[place + HEAD] = first
      end
    end
  end

  local function merge_into_one(ids, times, vectors)
    if #ids < 2 then
      return
    end
    local first, last, sums = text(times[1]), text(times[#times]), {}
    for _, vector in ipairs(vectors) do
      log.add_vector(sums, vector, 1)
    end
    move_heads(sums, times[1], times[#times])
    call('ZREM', LOG, unpack(ids))
    call('HDEL', UNITS, unpack(ids))
    call('ZADD', LOG, last, '\0' .. last)
    call('HSET', UNITS, '\0' .. last, vector_of(sums, log.size))
    -- Blocks that end between them become part of the next.
    local marks = call('ZRANGEBYSCORE', MARKS, first, '(' .. last)
    if #marks > 0 then
      call('ZREM', MARKS, unpack(marks))
      call('HDEL', SUMS, unpack(marks))
    end
    local block = log.block_end(times[#times])
    if block then
      local before = log.block_start(times[#times])
      call('HSET', SUMS, block, log.scan_vector(before and '(' .. before or '-inf', block))
    end
  end

  -- Merges a bounded number of charges, where ids are forgotten while charges count. Before `commit`: it changes totals.
  function changes.merge(most)
    if not ledger.merges then
      return
    end
    local from, till = call('HGET', META, 'merged') or '0', text(log.remembered_from - 1)
    local entries = call('ZRANGEBYSCORE', LOG, from, till, 'WITHSCORES', 'LIMIT', 0, most)
    if #entries <= 2 then
      return
    end
    local all = {}
    for place = 1, #entries, 2 do
      all[#all + 1] = entries[place]
    end
    local ids, times, vectors = {}, {}, {}
    for place, vector in ipairs(call('HMGET', UNITS, unpack(all))) do
      local at = tonumber(entries[2 * place])
      if vector and not log.is_lasting(vector) then
        -- A floor of a limit that it charges must be known.
        for code in pairs(log.add_vector({}, vector, 1)) do
          changes.place_of(code)
        end
        if #ids > 0 and not are_one(times[#times], at) then
          merge_into_one(ids, times, vectors)
          ids, times, vectors = {}, {}, {}
        end
        ids[#ids + 1], times[#times + 1], vectors[#vectors + 1] = all[place], at, vector
      end
    end
    merge_into_one(ids, times, vectors)
    local last = entries[#entries]
    -- All of one instant, and there may be more of them: those that follow are merged apart.
    local is_stuck = last == from and #all == most
    call('HSET', META, 'merged', is_stuck and text(tonumber(last) + 1) or last)
  end

  -- Removes what is older than is kept, a bounded number at a time. Before `commit`: it changes totals.
  function changes.evict(most)
    local entries = call('ZRANGEBYSCORE', LOG, '-inf', '(' .. text(log.kept_from), 'WITHSCORES', 'LIMIT', 0, most)
    if #entries == 0 then
      return
    end
    local ids = {}
    for place = 1, #entries, 2 do
      ids[#ids + 1] = entries[place]
    end
    for place, vector in ipairs(call('HMGET', UNITS, unpack(ids))) do
      for code, units in pairs(log.add_vector({}, vector, -1)) do
        if units ~= 0 then
          changes.add_to_total(code, tonumber(entries[2 * place]), units)
        end
      end
    end
    call('HDEL', UNITS, unpack(ids))
    call('ZREMRANGEBYRANK', LOG, 0, #ids - 1)
    -- The newest charge is never this old: one is left.
    local first = call('ZRANGE', LOG, 0, 0, 'WITHSCORES')[2]
    local dead = call('ZRANGEBYSCORE', MARKS, '-inf', '(' .. first, 'LIMIT', 0, most)
    if #dead > 0 then
      call('HDEL', SUMS, unpack(dead))
      call('ZREM', MARKS, unpack(dead))
    end
    local last = log.block_end(tonumber(first))
    if last then
      call('HSET', SUMS, last, log.scan_vector('-inf', last))
    end
  end

  -- Epochs, floors and the lives of keys: for `commit`.

  -- Records that an epoch is over. When something of it was lost before its end, what survived is unknown (L41).
  function changes.end_epoch()
    -- The number of past epochs that are remembered.
    local EPOCHS = 16
    local lines = {}
    for line in string.gmatch(call('HGET', META, 'epochs') or '', '[^\n]+\n') do
      lines[#lines + 1] = line
    end
    local survived = ledger.loss == 'behind' and 0 or ledger.stored_sequence
    lines[#lines + 1] = ledger.stored_epoch .. ' ' .. text(survived) .. '\n'
    call('HSET', META, 'epochs', table.concat(lines, '', max(#lines - EPOCHS + 1, 1)))
  end

  -- The floors of a limit that a window may still reach.
  local function lasting_floors(name)
    local limit, lasting = log.limit_named(name), {}
    for _, floor in ipairs(ledger.floors[name] or {}) do
      if not ledger.drops_floors or floor.at >= (limit and limit.from or log.kept_from) then
        lasting[#lasting + 1] = floor
      end
    end
    return lasting
  end

  -- Writes the floors; says whether any is left.
  function changes.write_floors()
    local lines = {}
    for name in pairs(ledger.floors) do
      for _, floor in ipairs(lasting_floors(name)) do
        lines[#lines + 1] = name .. '\n' .. text(floor.at) .. ' ' .. text(floor.used) .. ' ' .. text(floor.after) .. '\n'
      end
    end
    call('HSET', META, 'floors', table.concat(lines))
    return #lines > 0
  end

  -- Gives each limit of the state a field of its own.
  local function set_apart()
    state.apart = { size = log.size, stored = 0, latest_closing = 0 }
    for code = 1, log.size do
      state.apart[code] = code
    end
    call('HDEL', META, 'floors')
  end

  -- Writes the state where limits have fields of their own: those that are loaded.
  function changes.write_apart()
    if not state.apart then
      set_apart()
    end
    local apart = state.apart
    for _, code in ipairs(apart) do
      local place = FIRST_PLACE + (code - 1) * NEXT_PLACE
      local name, values = state[place], { code }
      for offset = RULE, PROBING do
        values[1 + offset] = state[place + offset]
      end
      for _, floor in ipairs(lasting_floors(name)) do
        values[#values + 1], values[#values + 2], values[#values + 3] = floor.at, floor.used, floor.after
      end
      call('HSET', META, 'limit:' .. name, cmsgpack.pack(unpack(values)))
      if code > apart.stored then
        call('HSET', META, 'code:' .. code, name)
      end
      apart.latest_closing = max(apart.latest_closing, state[place + CLOSED])
    end
    apart.stored = apart.size
    local header = { unpack(state, EPOCH, FLOORS) }
    header[FLOORS], header[FIRST_PLACE], header[FIRST_PLACE + 1] = false, apart.size, apart.latest_closing
    call('HSET', META, 'state', string.char(APART), 'header', cmsgpack.pack(unpack(header)))
  end

  -- Keys outlive the longest window and every closing (L50). Called when a sixteenth of that has gone by, and when keys may
  -- be new. The 26 hours that they live at least are for the length of the last closing, up to a day, and for the machines of
  -- a daily job, which find the epoch that they know.
  function changes.keep_alive()
    local shortest = ledger.least_life
    local latest = state.apart and state.apart.latest_closing or 0
    for code = 1, state.apart and 0 or log.size do
      latest = max(latest, state[FIRST_PLACE + (code - 1) * NEXT_PLACE + CLOSED])
    end
    local life = max(ledger.keep * 9 / 8, shortest, latest - now + shortest)
    for _, key in ipairs(KEYS) do
      call('PEXPIRE', key, text(math.ceil(life / 1000)))
    end
  end

  return changes
end
