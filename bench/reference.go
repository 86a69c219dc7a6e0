package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"allium/bench/bed"
	"allium/bench/bulk"
	"allium/bench/sessions"
	"allium/bench/web"
)

var errNotReference = errors.New("not a reference program")

// reference runs the reference program that args name.
func reference(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "reference-copy":
		return bulk.Copy(args[1], args[2])
	case len(args) == 3 && args[0] == "reference-serve":
		return bulk.Serve(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "reference-pull":
		return bulk.Pull(ctx, args[1], args[2])
	case len(args) == 2 && args[0] == "reference-raw":
		return bulk.PullRaw(ctx, args[1])
	case len(args) == 1 && args[0] == "reference-http":
		return bed.ServeBare(ctx, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	case len(args) == 2 && args[0] == "reference-http":
		return serve(ctx, args[1], web.Files)
	case len(args) == 2 && args[0] == "reference-page":
		return serve(ctx, args[1], func(size string) (http.Handler, error) {
			n, err := strconv.Atoi(size)
			return bed.SamePage(n), err
		})
	case len(args) == 2 && args[0] == "reference-tile":
		return serve(ctx, args[1], func(url string) (http.Handler, error) { return web.Replay(ctx, url) })
	case len(args) == 2 && args[0] == "reference-sessions":
		return sessions.Serve(ctx, args[1])
	case len(args) == 4 && args[0] == "slow-clients":
		return web.HoldSlowly(ctx, args[1], args[2], args[3])
	}
	return errNotReference
}

// serve serves the handler that the argument of a reference program makes.
func serve(ctx context.Context, arg string, handler func(arg string) (http.Handler, error)) error {
	h, err := handler(arg)
	if err != nil {
		return err
	}
	return bed.ServeBare(ctx, h)
}
