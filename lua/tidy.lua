-- What about every 16th charge does for the log: it makes the open records a chunk, removes chunks that no window reaches, and
-- merges records whose ids are forgotten.

-- Removes chunks that no window reaches, at most two at a time. Every limit in them passes them first.
local function evict()
  for _, chunk in ipairs(call('ZRANGEBYSCORE', LOG, '-inf', now - keep, 'LIMIT', 0, 2)) do
    local offset, _, last, sums = unpack_some(chunk, 3, 0)
    for number in pairs(sums) do
      local limit = limit_numbered(number)
      if limit[FRONT] > cleared and limit[FRONT] <= last then
        expire(limit, last + 1)
      end
    end
    forget(records_of(chunk, offset))
    remove_chunk(chunk)
  end
end

-- Whether two records may become one, at the time of the later: no floor lies between them, and every window that counts the later
-- counts them in one part (L11a).
local function are_one(earlier, later, windows)
  for _, window in ipairs(windows) do
    local part = window.part
    if later >= window.from and (not part or earlier - earlier % part ~= later - later % part) then
      return false
    end
  end
  return earlier > floored
end

-- Merges records of at most four chunks. `first`: the place of the first window among the arguments; none where nothing is merged.
local function merge(first)
  local windows, left, gone, starts, last = {}, {}, {}, {}, nil
  for place = first, #args do
    local back, part, periods = unpack_all(args[place])
    windows[#windows + 1] = { from = counted_from(back, part, periods), part = part }
  end
  local till = counted_from(remember - 1, false, forgets) - 1
  local read = windows[1] and call('ZRANGEBYSCORE', LOG, merged, till, 'LIMIT', 0, 4) or {}
  for _, chunk in ipairs(read) do
    local offset, _, last_at = unpack_some(chunk, 3, 0)
    for _, record in ipairs(records_of(chunk, offset)) do
      if last and not record[LASTS] and are_one(last[AT], record[AT], windows) then
        append(gone, { last[AT], last[ID] }, record)
        starts[last] = starts[last] or last[AT]
        last[AT], last[ID] = record[AT], ''
        add_units(last[UNITS], record[UNITS])
      else
        last = not record[LASTS] and record
        left[#left + 1] = record
      end
    end
    merged, changes = last_at, true
  end
  for record, start in pairs(starts) do
    for number in pairs(record[UNITS]) do
      local limit = limit_numbered(number)
      -- A limit whose front is among records that became one counts a part of it.
      local is_among = limit[FRONT] > start and limit[FRONT] <= record[AT]
      limit[FRONT], limit[AHEAD], limit[WHOLE] = is_among and 0 or limit[FRONT], '', false
    end
  end
  if next(starts) then
    forget(gone)
    for _, chunk in ipairs(read) do
      remove_chunk(chunk)
    end
    write_chunks(left)
    recount()
  end
end
