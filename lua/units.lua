-- Vectors of units: what was charged of each limit, in the order of the limits in the state.

-- The units of one limit in a vector.
local function units_in(vector, code)
  if not vector then
    return 0
  end
  if code == 1 then
    -- A vector of one limit is a number.
    return tonumber(vector) or tonumber(string.match(vector, '^%d+') or 0)
  end
  return tonumber(string.match(vector, '^' .. string.rep('%d+,', code - 1) .. '(%d+)') or 0)
end

-- The vector of these units by the number of the limit. `size` is the number of limits in the state.
local function vector_of(sums, size)
  if size == 1 then
    return string.format('%d', sums[1] or 0)
  end
  local vector, last = nil, 0
  for code = 1, size do
    local units = sums[code] or 0
    if units ~= 0 then
      vector = (vector and vector .. ',' or '') .. string.rep('0,', code - 1 - last) .. string.format('%d', units)
      last = code
    end
  end
  return vector or '0'
end
