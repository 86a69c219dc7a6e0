package api

import (
	"context"
	"time"

	"allium/protocols/capability"
	"allium/protocols/status"
)

// ReloadRequest is the body of /admin/reload.
type ReloadRequest struct {
	DryRun bool `json:"dry_run,omitempty"` // change nothing, say what would change
}

// ReloadResult says what became of the configuration in a reload.
type ReloadResult string

// The results of a reload.
const (
	ReloadRunning   ReloadResult = "running"   // it has not ended
	ReloadApplied   ReloadResult = "applied"   // new values of hot keys are in force
	ReloadUnchanged ReloadResult = "unchanged" // no hot key has a new value
	ReloadRejected  ReloadResult = "rejected"  // it was not read or is not valid: the old one stays in force
	ReloadReverted  ReloadResult = "reverted"  // it was applied and taken back, because a gate shut
)

// Reloaded is a reload: what it changes, and how far it is. The node keeps the latest 16.
type Reloaded struct {
	Token  string       `json:"token"` // names it, in the log too
	At     time.Time    `json:"at"`    // when it began
	DryRun bool         `json:"dry_run,omitempty"`
	Result ReloadResult `json:"result"` // of a dry run: what it would be

	Changed []ConfigChange `json:"changed"` // the keys with new values, hot and others
	Waiting []ConfigChange `json:"waiting"` // of them, those that take a restart
	Tasks   []ReloadTask   `json:"tasks"`   // the configuration, then the files beside it, as they run

	GuardUntil time.Time `json:"guard_until,omitzero"` // until then a gate that shuts brings the old values back
	Gate       *Gate     `json:"gate,omitempty"`       // of reverted: the gate that shut
}

// ConfigChange is a key of the configuration with a new value.
type ConfigChange struct {
	Key string `json:"key"`
	Old string `json:"old"` // lists have commas; empty, too, for an entry of a table that comes
	New string `json:"new"` // as above, for an entry that goes
	Hot bool   `json:"hot"` // a reload applies it; others wait for a restart
}

// TaskState says how far a task of a reload is.
type TaskState string

// The states of a task.
const (
	TaskPending TaskState = "pending"
	TaskRunning TaskState = "running"
	TaskStuck   TaskState = "stuck"  // it runs for 10 s and has not ended; the reload goes on without it
	TaskDone    TaskState = "done"   // of a dry run: what it would read is good
	TaskFailed  TaskState = "failed" // what was in force before stays in force
	TaskKept    TaskState = "kept"   // a dry run leaves it alone, or it did not come to it
)

// ReloadTask is a part of a reload.
type ReloadTask struct {
	Name   string         `json:"name"` // "configuration", "denylist", "certificate"
	State  TaskState      `json:"state"`
	Since  time.Time      `json:"since,omitzero"` // when it began
	TookMS float64        `json:"took_ms,omitempty"`
	Error  *status.Report `json:"error,omitempty"` // why it failed or is stuck
}

// Failed returns the first failure as an error, or nil.
func (r Reloaded) Failed() error {
	for _, t := range r.Tasks {
		if t.Error != nil {
			return t.Error.Err(status.Internal.Code())
		}
	}
	return nil
}

// ReloadEvent is a reload that changed the configuration, failed to, or was taken back.
type ReloadEvent struct {
	Token string   `json:"token"`
	Keys  []string `json:"keys"` // the hot keys that changed, the first MaxReloadKeys
	Count int      `json:"count"`
	Gate  string   `json:"gate,omitempty"`  // of reverted: the gate that shut
	Error string   `json:"error,omitempty"` // of rejected: why
}

// MaxReloadKeys is the maximum number of keys that a ReloadEvent names.
const MaxReloadKeys = 16

// Configuration is the configuration in force.
type Configuration struct {
	File   string        `json:"file,omitempty"` // the file that was read; empty: none
	Values []ConfigValue `json:"values"`         // every key
}

// ConfigValue is the value of a key that is in force.
type ConfigValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // the elements of a list have commas between them
	Source string `json:"source"` // "default", "file", "env" or "flag"
	Hot    bool   `json:"hot"`    // a reload applies a new value
}

// reloadToken is the request of ReloadStatus.
type reloadToken struct {
	Token string `query:"token,required" doc:"names the reload"`
}

var (
	verbReload = value(Spec{
		ID: "Reload", Admin: "reload", Op: capability.Reload,
		Doc: "Reads the configuration and the files beside it again, and applies the hot keys. What cannot be " +
			"read changes nothing.",
		Answer: "what changed, and the result of each task",
	}, func(n Node, ctx context.Context, r ReloadRequest) (Reloaded, error) { return n.Reload(ctx, r) })
	verbReloadStatus = value(Spec{
		ID: "ReloadStatus", Path: "reload", Doc: "Returns one of the latest 16 reloads.", Answer: "the reload",
	}, func(n Node, ctx context.Context, r reloadToken) (Reloaded, error) {
		return n.ReloadStatus(ctx, r.Token)
	})
	verbConfiguration = value(Spec{
		ID: "Configuration", Path: "configuration", Doc: "Returns the configuration that is in force.",
		Answer: "every key with its value and source",
	}, plain(Node.Configuration))
)

// Reload implements Control.
func (r remoteControl) Reload(ctx context.Context, q ReloadRequest) (Reloaded, error) {
	return Admin{remote: r.caller}.Reload(ctx, q)
}

// Reload lets the node read its configuration and files again.
func (a Admin) Reload(ctx context.Context, q ReloadRequest) (Reloaded, error) {
	return verbReload.repeat(ctx, a, q)
}

// ReloadStatus implements Control.
func (r remoteControl) ReloadStatus(ctx context.Context, token string) (Reloaded, error) {
	return verbReloadStatus.send(ctx, r.caller, reloadToken{token})
}

// Configuration implements Control.
func (r remoteControl) Configuration(ctx context.Context) (Configuration, error) {
	return verbConfiguration.send(ctx, r.caller, none{})
}
