#!/bin/sh
# redis-server under redis-benchmark: redis.sh SCRATCH [REQUESTS]
#
# This shell starts the clients in the background, without the allocator under test, and then
# becomes the server by exec, so that the measured process is the server. Its life lasts until it
# has answered the last request and was told to stop. Peak memory is the server's, by far the
# largest process. CPU time and page faults are the server's too where only the process itself is
# waited for; where all its descendants are, the clients' share is in them, the same for every
# allocator, as the clients run on libc's malloc. They kill the server if one of them fails: so
# fails the row.
#
# Debian's redis-server is linked against libjemalloc, so without a preloaded allocator it would not
# run on libc's malloc: then libc itself is preloaded, which puts its malloc first.
set -eu
scratch=${1:?the scratch directory is missing: redis.sh SCRATCH [REQUESTS]}
requests=${2:-60000}
for program in redis-server redis-benchmark redis-cli; do
  command -v "$program" >/dev/null || { echo "redis.sh: $program is not installed" >&2; exit 1; }
done
socket="$scratch/redis-$$.socket"
allocator=${LD_PRELOAD:-libc.so.6}
unset LD_PRELOAD

clients() {
  until redis-cli -s "$socket" ping >/dev/null 2>&1; do
    kill -0 $$ 2>/dev/null || exit 1
    sleep 0.01
  done
  benchmark() { redis-benchmark -s "$socket" -q -c 20 -P 16 -n "$requests" -r 100000 "$@"; }
  benchmark -d 100 -t set,get,incr,lpush,lpop,sadd,hset,zadd >/dev/null &&
    benchmark -d 1000 -t set,get >/dev/null &&
    redis-cli -s "$socket" shutdown nosave || kill -KILL $$
}
clients >/dev/null 2>"$scratch/redis-clients.log" &

exec env LD_PRELOAD="$allocator" redis-server --port 0 --unixsocket "$socket" --save '' \
  --appendonly no --dir "$scratch" --logfile redis-server.log
