#!/usr/bin/env bash
# go-yamux sends what a stream had written before it was reset, ahead of all other streams.
#
# go-yamux v5.1.0, default configuration. A session queues up to 64 messages of 64 KiB in front of the
# connection, whatever stream they are of. Reset of a stream takes nothing of it back. Over a link of
# 1 MiB/s a server writes an answer of 2 MiB to a stream with the window for it: all of Write returns within
# milliseconds. Then the client loses interest and the server resets the stream. A byte that it writes to
# another stream of the session after that arrives two seconds later, behind the answer that nobody wants.
#
# Seen: 2 MiB written within 0.1 s, of which all crossed the link after the reset; the byte of the other stream
# arrived 2.0 s after it was written.
# For a node that cancels requests: cutting an answer short saves nothing of what the other side has written.
# Ask slow peers for little at a time, and keep a stream's window as small as the round trip allows.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

const (
	rate   = 1 << 20 // bytes a second
	answer = 2 << 20 // bytes
)

// slow is a connection that writes at the rate.
type slow struct {
	net.Conn
	next    time.Time
	written atomic.Int64
}

func (s *slow) Write(p []byte) (int, error) {
	if now := time.Now(); s.next.Before(now) {
		s.next = now
	}
	s.next = s.next.Add(time.Duration(len(p)) * time.Second / rate)
	time.Sleep(time.Until(s.next))
	n, err := s.Conn.Write(p)
	s.written.Add(int64(n))
	return n, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	a, b := net.Pipe()
	link := &slow{Conn: a}
	config := yamux.DefaultConfig()
	config.InitialStreamWindowSize, config.LogOutput = 4<<20, io.Discard
	server := must(yamux.Server(link, config, nil))
	client := must(yamux.Client(b, config, nil))

	request := must(client.OpenStream(context.Background()))
	other := must(client.OpenStream(context.Background()))
	must(request.Write([]byte("?")))
	must(other.Write([]byte("?")))
	reply, aside := must(server.AcceptStream()), must(server.AcceptStream())
	must(io.ReadFull(reply, make([]byte, 1)))
	must(io.ReadFull(aside, make([]byte, 1)))

	begun := time.Now()
	must(reply.Write(make([]byte, answer)))
	wrote := time.Since(begun)
	if err := reply.Reset(); err != nil {
		panic(err)
	}
	before := link.written.Load()
	asked := time.Now()
	must(aside.Write([]byte("!")))
	must(io.ReadFull(other, make([]byte, 1)))
	waited, after := time.Since(asked), link.written.Load()-before

	fmt.Printf("2 MiB written in %v\n", wrote.Round(time.Millisecond))
	fmt.Printf("sent after the reset: %.1f MiB\n", float64(after)/(1<<20))
	fmt.Printf("a byte of another stream took %.1f s\n", waited.Seconds())
	if wrote > time.Second || after < answer/2 || waited < time.Second {
		fmt.Println("CHANGED: expected that what was written is sent, and first")
		os.Exit(1)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/libp2p/go-yamux/v5@v5.1.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
go run .
