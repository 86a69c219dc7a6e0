// Command bench measures allium as whole processes against the thinnest
// honest programs that do the same work, in the same run and on the same
// machine: medians of interleaved rounds, so that a machine that gets slower
// meanwhile slows both sides.
//
//   - add against read + hash + write, and against dd conv=fdatasync;
//   - cold fetch of one large file between two processes over loopback TCP
//     against the reference pipe (pread + hash → one libp2p stream → hash +
//     write + fdatasync) and against a raw stream copy;
//   - add and cold fetch of ten thousand small files;
//   - start and idle memory of a node.
//
// `make bench` builds bin/allium and runs it. The program starts itself again
// for the reference processes; see pipe.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"allium/protocols/admission"
)

// settings of one run.
type settings struct {
	allium string // the binary under test
	dir    string // on the disk to measure
	size   int64
	files  int
	rounds int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := reference(ctx, os.Args[1:])
	if errors.Is(err, errNotReference) {
		err = benchmark(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func benchmark(ctx context.Context) (err error) {
	s := settings{}
	size := admission.Bytes(1 << 30)
	flag.StringVar(&s.allium, "allium", "bin/allium", "the binary to measure")
	flag.StringVar(&s.dir, "dir", "", "directory on the disk to measure (default: the temporary directory)")
	flag.TextVar(&size, "size", size, "size of the large file")
	flag.IntVar(&s.files, "files", 10_000, "how many files of 4 KiB")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of each measurement")
	flag.Parse()
	if s.rounds < 1 || s.files < 1 || size < 1 {
		return errors.New("-rounds, -files and -size must be at least 1")
	}
	s.size = int64(size)
	if s.allium, err = filepath.Abs(s.allium); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(s.dir, "allium-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	ctx, cancel := context.WithCancel(ctx) // ends the nodes that an error leaves behind
	defer cancel()

	fmt.Printf(format, "what", "median", "min – max", "target")
	for _, part := range []func(context.Context, *settings) ([]row, error){benchStart, benchAdd, benchFetch, benchFiles} {
		rows, err := part(ctx, &s)
		if err != nil {
			return err
		}
		for _, r := range rows {
			fmt.Print(r)
		}
	}
	return nil
}
