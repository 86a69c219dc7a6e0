package reload

import (
	"slices"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// kept is the number of reloads whose records are kept.
const kept = 16

// records are the records of the latest reloads, and which tasks run.
type records struct {
	mu   sync.Mutex // guards all and runs; lock: leaf
	all  []*record  // at most kept, the oldest first
	runs map[string]bool
}

// begin returns the record of a reload that begins.
func (r *records) begin(token string, dry bool) *record {
	rec := &record{of: api.Reloaded{
		Token: token, At: time.Now().UTC(), DryRun: dry, Result: api.ReloadRunning,
		Changed: []api.ConfigChange{}, Waiting: []api.ConfigChange{}, Tasks: []api.ReloadTask{},
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == kept {
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, rec)
	return rec
}

// find returns the record of a reload, or nil.
func (r *records) find(token string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.of.Token == token { // which does not change
			return rec
		}
	}
	return nil
}

// list returns the records, the latest first.
func (r *records) list() []*record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.Reverse(all)
	return all
}

// enter reports whether a task may run: none of its name does. The caller calls leave when it has ended.
func (r *records) enter(task string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[task] {
		return false
	}
	if r.runs == nil {
		r.runs = map[string]bool{}
	}
	r.runs[task] = true
	return true
}

func (r *records) leave(task string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, task)
}

// record is the record of one reload. Its methods may be called from any goroutine.
type record struct {
	mu sync.Mutex // guards of; lock: leaf
	of api.Reloaded
}

// get returns the reload as it is now.
func (r *record) get() api.Reloaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of
	of.Changed, of.Waiting, of.Tasks = slices.Clone(of.Changed), slices.Clone(of.Waiting), slices.Clone(of.Tasks)
	return of
}

// set changes the reload. f does not wait.
func (r *record) set(f func(*api.Reloaded)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.of)
}

// add appends tasks that have not begun.
func (r *record) add(files ...File) {
	r.set(func(of *api.Reloaded) {
		for _, f := range files {
			of.Tasks = append(of.Tasks, api.ReloadTask{Name: f.Name, State: api.TaskPending})
		}
	})
}

// start notes that a task begins.
func (r *record) start(task int) {
	r.set(func(of *api.Reloaded) {
		t := &of.Tasks[task]
		t.State, t.Since = api.TaskRunning, time.Now().UTC()
	})
}

// end notes how a task ended. A configuration that was read too late is not applied.
func (r *record) end(task int, err error) {
	r.set(func(of *api.Reloaded) {
		t := &of.Tasks[task]
		t.TookMS = float64(time.Since(t.Since).Microseconds()) / 1000
		switch {
		case err != nil:
			rep := status.ReportOf(err)
			t.State, t.Error = api.TaskFailed, &rep
		case t.State == api.TaskStuck && task == 0:
			t.State = api.TaskFailed
		default:
			t.State, t.Error = api.TaskDone, nil
		}
	})
}

// stick notes that a task does not end. It reports false if it has ended.
func (r *record) stick(task int, why error) (stuck bool) {
	r.set(func(of *api.Reloaded) {
		if t := &of.Tasks[task]; t.State == api.TaskRunning {
			rep := status.ReportOf(why)
			t.State, t.Error, stuck = api.TaskStuck, &rep, true
		}
	})
	return stuck
}

// keep notes that the tasks that have not begun never will.
func (r *record) keep() {
	r.set(func(of *api.Reloaded) {
		for i := range of.Tasks {
			if of.Tasks[i].State == api.TaskPending {
				of.Tasks[i].State = api.TaskKept
			}
		}
	})
}
