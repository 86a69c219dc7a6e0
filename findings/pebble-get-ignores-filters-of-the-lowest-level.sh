#!/usr/bin/env bash
# DB.Get of Pebble reads a data block for each key that is not there, although its tables have Bloom filters.
#
# pebble v2.1.7. All levels have a filter policy of 10 bits a key, so the tables of the lowest level, where a
# compaction puts nearly everything, carry filters too. DB.Get never asks these, and there is no option for it:
# IterOptions.UseL6Filters exists for iterators alone. An iterator with that option and SeekPrefixGE answers
# the same questions from the filters.
#
# Seen, 1,000 keys that are absent, in a database of 100,000 that is one table in level 6: Get asked the filter 0
# times and took 3,006 blocks from the cache or the file. The iterator asked the filter 1,000 times, which told
# 982 times that the key is absent, and took 1,037 blocks.
# For a store that mostly looks up what is new, such as one addressed by hashes: filters of the lowest level cost
# space and save nothing with Get. Use an iterator with the option, or keep a filter of your own in front.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	entries = 100_000
	absent  = 1000
)

func key(i int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return sum[:]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// asked returns how often filters and the cache of blocks were asked.
func asked(db *pebble.DB) (filters, useful, blocks int64) {
	m := db.Metrics()
	return m.Filter.Hits + m.Filter.Misses, m.Filter.Hits, m.BlockCache.Hits + m.BlockCache.Misses
}

func main() {
	// The prefix of a key is all of it by default, so SeekPrefixGE looks up that key, as Get does.
	opts := &pebble.Options{FS: vfs.NewMem()}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open("db", opts)
	must(err)
	defer db.Close()
	for i := range entries {
		must(db.Set(key(i), make([]byte, 20), pebble.NoSync))
	}
	must(db.Flush())
	must(db.Compact(context.Background(), []byte{0}, []byte{255, 255}, false))
	m := db.Metrics()
	fmt.Printf("tables in level 6: %d of %d\n", m.Levels[6].TablesCount, m.Total().TablesCount)

	f0, _, b0 := asked(db)
	for i := range absent {
		if _, _, err := db.Get(key(entries + i)); !errors.Is(err, pebble.ErrNotFound) {
			panic(fmt.Sprint("found what is not there: ", err))
		}
	}
	f1, h1, b1 := asked(db)
	fmt.Printf("Get of %d absent keys: filters asked %d times, blocks %d times\n", absent, f1-f0, b1-b0)

	it, err := db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	must(err)
	for i := range absent {
		if it.SeekPrefixGE(key(entries + i)) {
			panic("found what is not there")
		}
	}
	must(it.Close())
	f2, h2, b2 := asked(db)
	fmt.Printf("SeekPrefixGE of %d absent keys with UseL6Filters: filters asked %d times, %d told; blocks %d times\n",
		absent, f2-f1, h2-h1, b2-b1)
	if f1 != f0 || b1-b0 < absent || h2-h1 < absent*9/10 {
		fmt.Println("CHANGED: expected that Get asks no filter of level 6, and that an iterator may")
		os.Exit(1)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/cockroachdb/pebble/v2@v2.1.7 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run .
