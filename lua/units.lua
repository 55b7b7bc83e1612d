-- Vectors of units: what was charged of each limit, as `terms.lua` describes them. One that was written while there were few
-- limits stays as it is.

-- The units of one limit in a vector.
local function units_in(vector, code)
  if not vector then
    return 0
  end
  -- A vector of one limit is a number, with or without a sign behind it.
  local units = code == 1 and (tonumber(vector) or tonumber(string.sub(vector, 1, -2)))
  if units then
    return units
  end
  if string.find(vector, ':', 1, true) then
    return tonumber(string.match(',' .. vector, ',' .. code .. ':(%d+)') or 0)
  end
  return tonumber(string.match(vector, '^' .. string.rep('%d+,', code - 1) .. '(%d+)') or 0)
end

-- The vector of these units by the number of the limit. `size` is the number of limits in the state.
local function vector_of(sums, size)
  if size == 1 then
    return string.format('%d', sums[1] or 0)
  end
  local vector, last = nil, 0
  if size > MOST_TOGETHER then
    local codes = {}
    for code, units in pairs(sums) do
      if units ~= 0 then
        codes[#codes + 1] = code
      end
    end
    table.sort(codes)
    for place, code in ipairs(codes) do
      codes[place] = string.format('%d:%d', code, sums[code])
    end
    return codes[1] and table.concat(codes, ',') or '0'
  end
  for code = 1, size do
    local units = sums[code] or 0
    if units ~= 0 then
      vector = (vector and vector .. ',' or '') .. string.rep('0,', code - 1 - last) .. string.format('%d', units)
      last = code
    end
  end
  return vector or '0'
end
