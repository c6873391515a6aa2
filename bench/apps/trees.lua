-- Binary trees and tables in Lua: every node is a table, every table one or two blocks of malloc.

local DEPTH = 14

local function tree_of(depth)
  if depth == 0 then return {} end
  return { tree_of(depth - 1), tree_of(depth - 1) }
end

local function tree_count(tree)
  if not tree[1] then return 1 end
  return 1 + tree_count(tree[1]) + tree_count(tree[2])
end

local kept = tree_of(DEPTH)
local total = 0
for depth = 4, DEPTH, 2 do
  local rounds = 2 ^ (DEPTH - depth + 2)
  for _ = 1, rounds do total = total + tree_count(tree_of(depth)) end
end
assert(tree_count(kept) == 2 ^ (DEPTH + 1) - 1)

local records = {}
for i = 1, 120000 do records[i] = { id = i, weight = i * 7919 % 1009, next = records[i - 1] } end
table.sort(records, function(a, b)
  if a.weight ~= b.weight then return a.weight < b.weight end
  return a.id < b.id
end)
print(total, records[1].id, records[#records].id)
