-- What a caller is answered without a grant: how a limit is used, and when it will be free.

local function open_forecast(ledger)
  if ledger.forecast then
    return ledger.forecast
  end
  local forecast = {}
  ledger.forecast = forecast
  local function text(number)
    return string.format('%d', number)
  end
  local call, max, log = redis.call, math.max, open_log(ledger)
  local LOG, MARKS, SUMS, now, state = KEYS[2], KEYS[4], KEYS[5], ledger.now, ledger.state

  -- What is used of a limit where `sum` was charged from `from` on. A floor is what a lost ledger had reported, and what was
  -- charged after that (L40).
  function forecast.above_floors(limit, from, sum)
    for _, floor in ipairs(ledger.floors[limit.name] or {}) do
      if floor.at >= from then
        sum = max(sum, floor.used + floor.after)
      end
    end
    return sum
  end

  -- The first instant at which a unit charged at `at` no longer counts: `Window::expiry` (L2).
  function forecast.expiry(limit, at)
    -- A charge counts as if it were made at the end of its part.
    at = limit.part and at - at % limit.part + limit.part - 1 or at
    local slid, reset = limit.slide and at + limit.slide + limit.grace, nil
    for _, day in ipairs(limit.days) do
      if day > at + limit.grace then
        reset = day + limit.grace
        break
      end
    end
    return max(slid or reset or at, reset or slid or at)
  end

  -- Until when a limit is closed; nil when it is open.
  function forecast.closed(limit)
    local closed = state[limit.place + CLOSED]
    return closed > now and closed or nil
  end

  function forecast.remaining(limit)
    return forecast.closed(limit) and 0 or max(limit.enforced - limit.used, 0)
  end

  -- The position that a caller notes: epoch, sequence, now, when the keys' lives were renewed last.
  function forecast.position()
    local renewal = state[RENEWAL]
    local renewed = renewal < 0 and -renewal or ledger.stored and max(renewal - math.floor(ledger.keep / 16), 0) or 0
    return state[EPOCH] or '', state[SEQUENCE], now, renewed
  end

  -- The first charge with whose end at least `need` units of a limit have left the window.
  local function leaves_last(limit, need)
    local low, sum = text(limit.from), 0
    local function search(high)
      -- Most charges have a unit or more, so this number of them mostly has the units that are missing.
      for ids, vectors in log.batches(low, high, math.min(max(need - sum, 4), LONGEST_BLOCK)) do
        for place = 1, #vectors do
          sum = sum + units_in(vectors[place], limit.code)
          if sum >= need then
            return ids[place]
          end
        end
      end
    end
    local mark = log.block_end(limit.from)
    if not mark then
      return search('+inf')
    end
    local found, most = search(mark), 4
    while not found do
      local marks = call('ZRANGEBYSCORE', MARKS, '(' .. mark, '+inf', 'LIMIT', '0', text(most))
      most = 32
      if #marks == 0 then
        low = '(' .. mark
        return search('+inf')
      end
      for place, vector in ipairs(call('HMGET', SUMS, unpack(marks))) do
        local block = vector and units_in(vector, limit.code) or log.scan(limit.code, '(' .. mark, marks[place])
        if sum + block >= need then
          low = '(' .. mark
          return search(marks[place])
        end
        sum, mark = sum + block, marks[place]
      end
    end
    return found
  end

  -- The time of that charge; nil when the log holds too little.
  local function leaves_at(limit, need)
    if not limit.charges then
      local last = leaves_last(limit, need)
      return last and tonumber(call('ZSCORE', LOG, last))
    end
    local charges, sum = limit.charges, 0
    for place = 1, #charges, 2 do
      sum = sum + charges[place + 1]
      if sum >= need then
        return charges[place]
      end
    end
  end

  -- The first instant, now or later, at which no more than `most` units of a limit count, if nothing is charged.
  function forecast.falls_to(limit, most)
    local at = now
    if limit.sum > most then
      at = max(at, forecast.expiry(limit, leaves_at(limit, limit.sum - most) or now))
    end
    for _, floor in ipairs(ledger.floors[limit.name] or {}) do
      if floor.at >= limit.from and floor.used + floor.after > most then
        at = max(at, forecast.expiry(limit, floor.at))
      end
    end
    return at
  end

  return forecast
end
