package settings

import (
	"context"
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/node/config"
)

// Differences returns how a configuration file differs from the configuration of a running node. The flags and the
// environment of the node hold for the file too. An empty file stands for the one that the node reads.
func Differences(ctx context.Context, n api.Node, file string) ([]api.ConfigChange, error) {
	if file == "" {
		r, err := n.Reload(ctx, api.ReloadRequest{DryRun: true})
		if err == nil && r.Result == api.ReloadRejected && len(r.Changed) == 0 {
			err = r.Failed()
		}
		return r.Changed, err
	}
	c, err := n.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	all, stronger := map[string]any{}, map[string]any{} // all values that are set, and those that win over a file
	for _, v := range c.Values {
		switch config.Source(v.Source) {
		case config.FromEnv, config.FromFlag:
			stronger[v.Key] = v.Value
		case config.FromDefault:
			continue
		}
		all[v.Key] = v.Value
	}
	running, err := config.Load(config.Options{Flags: all})
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the node, which may be of another version: %w", err)
	}
	next, err := config.Load(config.Options{File: file, Required: true, Flags: stronger})
	if err != nil {
		return nil, err
	}
	changes := []api.ConfigChange{}
	for _, d := range config.Diff(running, next) {
		changes = append(changes, api.ConfigChange(d))
	}
	return changes, nil
}

// Change says what changes about a key, and what puts it in force.
func Change(c api.ConfigChange) string {
	text := fmt.Sprintf("%s: %s → %s", c.Key, orEmpty(c.Old), orEmpty(c.New))
	if !c.Hot {
		text += " (waits for a restart)"
	}
	return text
}

// Reloaded describes a reload: its result, what changes, and its tasks.
func Reloaded(r api.Reloaded) string {
	lines := []string{fmt.Sprintf("reload %s: %s", r.Token, r.Result)}
	if r.DryRun {
		lines[0] = fmt.Sprintf("dry run %s: nothing was changed; a reload would be %s", r.Token, r.Result)
	}
	if r.Gate != nil {
		lines = append(lines, fmt.Sprintf(
			"the gate %s shut after it, and the values from before are in force again: %s", r.Gate.Name, r.Gate.Fix))
	}
	for _, c := range r.Changed {
		lines = append(lines, "  "+Change(c))
	}
	for _, t := range r.Tasks {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-16s %-8s %s", t.Name, t.State, took(t)), " "))
		if t.Error != nil {
			lines = append(lines, "  "+t.Error.Message)
		}
	}
	if !r.GuardUntil.IsZero() && r.Result == api.ReloadApplied {
		lines = append(lines, fmt.Sprintf("until %s a gate of readiness that shuts brings the old values back",
			r.GuardUntil.Local().Format(time.TimeOnly)))
	}
	return strings.Join(lines, "\n")
}

// took says how long a task took, or runs.
func took(t api.ReloadTask) string {
	switch {
	case t.Since.IsZero():
		return ""
	case t.State == api.TaskRunning, t.State == api.TaskStuck:
		return "since " + t.Since.Local().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%.1f ms", t.TookMS)
}
