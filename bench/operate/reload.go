package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"allium/bench/bed"
	"allium/bench/clients"
	"allium/bench/measure"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/limits"
)

// The reloads of a gateway under load.
const (
	reloadRate    = 400 // requests a second: 80 % of what the gateway lets through
	reloadClients = 32  // each on a connection that it keeps
	reloadEvery   = time.Second
	configFile    = "config.toml" // in a home

)

// benchHotReload asks a gateway at a steady rate, while every hot key that is a number or a switch changes once a
// second, and before and after without that.
func benchHotReload(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	p, page, err := startGateway(ctx, s, "operate")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	home := filepath.Join(s.Dir, "operate")
	node, err := measure.Client(home)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	keys, all, err := varied(ctx, node, home)
	if err != nil {
		return nil, err
	}
	ask := func(length time.Duration) (clients.Answers, error) {
		return clients.Ask(ctx, page, reloadClients, true, time.Second*reloadClients/reloadRate, length)
	}
	if _, err := ask(askWarm); err != nil {
		return nil, err
	}
	calm, err := ask(s.Hold / 4)
	if err != nil {
		return nil, err
	}
	reloads, changed, stop := 0, 0, make(chan struct{})
	var reloading sync.WaitGroup
	var failed error
	reloading.Go(func() {
		tick := time.NewTicker(reloadEvery)
		defer tick.Stop()
		for failed == nil {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			var n int
			if n, failed = reloadWith(ctx, node, home, textOf(keys, reloads%2 == 0)); failed == nil {
				reloads, changed = reloads+1, max(changed, n)
			}
		}
	})
	got, err := ask(s.Hold / 2)
	close(stop)
	reloading.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	after, err := ask(s.Hold / 4)
	if err != nil {
		return nil, err
	}
	calm.Add(after)
	if got.Why != nil {
		fmt.Printf("reload: one of the requests failed: %v\n", got.Why)
	}
	return []measure.Row{
		measure.Single("reload: hot keys that change", "", "", float64(changed)),
		measure.Single("reload: of hot numbers and switches", "", "", float64(all)),
		measure.Single("reload: reloads", "", "", float64(reloads)),
		measure.Single("reload: requests meanwhile", "", "", float64(got.All())),
		measure.Single("reload: of these refused", "", "0", float64(got.Refused)),
		measure.Single("reload: of these failed", "", "0", float64(got.Failed)),
		measure.Single("reload: p99 without", "ms", "", calm.P99()),
		measure.Single("reload: p99 with", "ms", "", got.P99()),
		measure.Single("reload: p99 with ÷ without", "×", "≤ 1.2", got.P99()/calm.P99()),
	}, nil
}

// reloadWith writes the configuration of a home and has its node read it. It returns how many keys changed.
func reloadWith(ctx context.Context, node *client.Client, home, text string) (changed int, err error) {
	if err := os.WriteFile(filepath.Join(home, configFile), []byte(text), 0o600); err != nil {
		return 0, err
	}
	done, err := node.Reload(ctx, api.ReloadRequest{})
	if err != nil {
		return 0, err
	}
	return len(done.Changed) - len(done.Waiting), done.Failed()
}

// hotKey is a hot key with the value in force and another one, as a configuration file has them.
type hotKey struct{ name, old, other string }

// varied returns the hot keys that are numbers or switches and that may have another value, and how many keys of
// these kinds there are. It asks the node which of the values it would take, and changes nothing.
func varied(ctx context.Context, node *client.Client, home string) (keys []hotKey, all int, err error) {
	now, err := node.Configuration(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, v := range now.Values {
		if k, ok := another(v); ok {
			keys = append(keys, k)
		}
	}
	all = len(keys)
	for len(keys) > 0 {
		name := filepath.Join(home, configFile)
		if err := os.WriteFile(name, []byte(textOf(keys, true)), 0o600); err != nil {
			return nil, 0, err
		}
		dry, err := node.Reload(ctx, api.ReloadRequest{DryRun: true})
		if err != nil {
			return nil, 0, err
		}
		wrong := dry.Failed()
		if wrong == nil {
			return keys, all, nil
		}
		n := len(keys)
		keys = slices.DeleteFunc(keys, func(k hotKey) bool { return strings.Contains(wrong.Error(), k.name) })
		if len(keys) == n {
			return nil, 0, wrong
		}
	}
	return nil, all, errors.New("no hot key may have another value")
}

// textOf is a configuration file with the other values of keys, or with those from before.
func textOf(keys []hotKey, other bool) string {
	var b strings.Builder
	for _, k := range keys {
		if other {
			fmt.Fprintf(&b, "%s = %s\n", k.name, k.other)
		} else {
			fmt.Fprintf(&b, "%s = %s\n", k.name, k.old)
		}
	}
	return b.String()
}

// another finds another value for a hot key that is a number or a switch. 0, which is no bound for most keys, becomes
// so much that it bounds nothing.
func another(v api.ConfigValue) (k hotKey, ok bool) {
	k = hotKey{name: v.Key, old: v.Value}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	d, noDuration := time.ParseDuration(v.Value)
	var size limits.Bytes
	noSize := size.UnmarshalText([]byte(v.Value))
	switch {
	case !v.Hot:
		return k, false
	case v.Value == "true" || v.Value == "false":
		k.other = strconv.FormatBool(v.Value == "false")
		return k, true
	case err == nil && n == 0:
		k.other = strconv.Itoa(1 << 40)
		return k, true
	case err == nil:
		k.other = strconv.FormatInt(n+1, 10)
		return k, true
	case noDuration == nil && d > 0:
		k.other = (d + d/10).String()
	case noSize == nil && size > 0:
		k.other = (size + size/8).String()
	default:
		return k, false
	}
	k.old, k.other = strconv.Quote(k.old), strconv.Quote(k.other)
	return k, true
}
