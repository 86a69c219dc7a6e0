package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"allium/bench/bed"
	"allium/bench/resolve"
	"allium/bench/sessions"
	"allium/bench/transfer"
	"allium/bench/web"
)

var errNotReference = errors.New("not a reference program")

// reference runs the reference program that args name.
func reference(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "reference-copy":
		return transfer.Copy(args[1], args[2])
	case len(args) == 3 && args[0] == "reference-serve":
		return transfer.Serve(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "reference-pull":
		return transfer.Pull(ctx, args[1], args[2])
	case len(args) == 2 && args[0] == "reference-raw":
		return transfer.PullRaw(ctx, args[1])
	case len(args) == 1 && args[0] == "reference-http":
		return bed.ServeBare(ctx, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	case len(args) == 2 && args[0] == "reference-page":
		size, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return bed.ServeBare(ctx, bed.SamePage(size))
	case len(args) == 1 && args[0] == "reference-silent":
		return resolve.ServeSilence(ctx)
	case len(args) == 2 && args[0] == "reference-answer":
		h, err := bed.SameAnswer(args[1])
		if err != nil {
			return err
		}
		return bed.ServeBare(ctx, h)
	case len(args) == 2 && args[0] == "reference-tile":
		h, err := web.Replay(ctx, args[1])
		if err != nil {
			return err
		}
		return bed.ServeBare(ctx, h)
	case len(args) == 4 && args[0] == "slow-clients":
		return web.HoldSlowly(ctx, args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "reference-http":
		h, err := web.Files(args[1])
		if err != nil {
			return err
		}
		return bed.ServeBare(ctx, h)
	case len(args) == 4 && args[0] == "reference-sessions":
		rate, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return err
		}
		work, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return sessions.Serve(ctx, args[1], rate, work)
	}
	return errNotReference
}
