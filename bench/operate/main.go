// Command operate measures what operators do to nodes under load: mixed work for a long time with reloads and restarts
// (soak), reloads of every hot key (reload), a rolling restart of five nodes (rolling), and three times as many
// requests as a gateway can answer (overload).
//
//	go run -C bench ./operate -allium ../bin/allium -only reload,rolling -hold 60s
//	make soak SOAK=30m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// parts are the measurements by name.
var parts = map[string]func(context.Context, *bed.Settings) ([]measure.Row, error){
	"overload": benchOverload, "reload": benchHotReload, "rolling": benchRolling, "soak": benchSoak,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := operate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "operate:", err)
		os.Exit(1)
	}
}

func operate(ctx context.Context) (err error) {
	s := bed.Settings{}
	flag.StringVar(&s.Allium, "allium", "../bin/allium", "the binary to measure")
	flag.StringVar(&s.Dir, "dir", "", "directory for the nodes (default: the temporary directory)")
	flag.DurationVar(&s.Hold, "hold", time.Minute, "how long a load lasts, and a soak")
	only := flag.String("only", "reload,rolling,overload", "parts to measure, with commas between; also soak")
	flag.Parse()
	if s.Hold < time.Second {
		return errors.New("-hold must be at least 1s")
	}
	if s.Allium, err = filepath.Abs(s.Allium); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(s.Dir, "allium-operate-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	ctx, cancel := context.WithCancel(ctx) // ends the nodes that an error leaves behind
	defer cancel()
	fmt.Printf(measure.Format, "what", "median", "min – max", "target")
	for name := range strings.SplitSeq(*only, ",") {
		measure, ok := parts[name]
		if !ok {
			return fmt.Errorf("there is no part %q", name)
		}
		rows, err := measure(ctx, &s)
		if err != nil {
			return err
		}
		for _, r := range rows {
			fmt.Print(r)
		}
	}
	return nil
}
