package ledger

import (
	"maps"
	"sync"
)

// Class is what bytes are.
type Class int

// The classes.
const (
	Logs Class = iota
	Outputs
	Archives
	Checkpoints
	Assets
	classes
)

// Sums are bytes by class.
type Sums [classes]int64

// Ledger is what is kept. Safe for concurrent use; the zero Ledger is empty and knows that it has not
// counted yet.
type Ledger struct {
	mu       sync.Mutex
	tasks    map[string]*account // by task id; archives by the project's own
	projects map[string]*Sums
	counted  bool
	wrote    map[string]*Sums // by project: what was added, less what was dropped, since this process began
	others   map[string]Sums  // by project: what other servers wrote since the last count
	// since has what came while a count is being made; nil: none is.
	since map[string]*account
}

type account struct {
	project string
	bytes   Sums
}

// Counted says that everything was counted at least once; before that sums are too small.
func (l *Ledger) Counted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted
}

// Add counts bytes of a task that were stored, or, negative, that were deleted.
func (l *Ledger) Add(project, task string, class Class, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(project, task, class, bytes)
	l.write(project, class, bytes)
	if l.since != nil {
		put(l.since, project, task).bytes[class] += bytes
	}
}

func (l *Ledger) write(project string, class Class, bytes int64) {
	if l.wrote == nil {
		l.wrote = map[string]*Sums{}
	}
	if l.wrote[project] == nil {
		l.wrote[project] = &Sums{}
	}
	l.wrote[project][class] += bytes
}

func (l *Ledger) add(project, task string, class Class, bytes int64) {
	if l.tasks == nil {
		l.tasks, l.projects = map[string]*account{}, map[string]*Sums{}
	}
	a := put(l.tasks, project, task)
	bytes = max(bytes, -a.bytes[class]) // never below nothing
	a.bytes[class] += bytes
	if l.projects[a.project] == nil {
		l.projects[a.project] = &Sums{}
	}
	l.projects[a.project][class] += bytes
}

func put(in map[string]*account, project, task string) *account {
	a := in[task]
	if a == nil {
		a = &account{project: project}
		in[task] = a
	}
	return a
}

// Set replaces what is known of one class of a task.
func (l *Ledger) Set(project, task string, class Class, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := int64(0)
	if a := l.tasks[task]; a != nil {
		had = a.bytes[class]
	}
	l.add(project, task, class, bytes-had)
	if l.since != nil {
		put(l.since, project, task).bytes[class] += bytes - had
	}
}

// Drop forgets a task whose bytes were deleted.
func (l *Ledger) Drop(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.tasks[task]
	if a == nil {
		return
	}
	for class, bytes := range a.bytes {
		l.projects[a.project][class] -= bytes
		l.write(a.project, Class(class), -bytes)
	}
	delete(l.tasks, task)
	delete(l.since, task)
}

// Used is what is kept for a project.
func (l *Ledger) Used(project string) Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum Sums
	if s := l.projects[project]; s != nil {
		sum = *s
	}
	for class, bytes := range l.others[project] {
		sum[class] = max(sum[class]+bytes, 0)
	}
	return sum
}

// Totals are what is kept for every project.
func (l *Ledger) Totals() map[string]Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	return values(l.projects)
}

// Wrote is what this process added for every project since it began, less what it dropped. It is for other servers, who count it as Others.
func (l *Ledger) Wrote() map[string]Sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	return values(l.wrote)
}

func values(in map[string]*Sums) map[string]Sums {
	out := make(map[string]Sums, len(in))
	for project, s := range in {
		out[project] = *s
	}
	return out
}

// Others is what other servers wrote since this one's last count began.
func (l *Ledger) Others(wrote map[string]Sums) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others = wrote
}

// Assume takes what was last known of projects until the first count.
func (l *Ledger) Assume(totals map[string]Sums) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for project, s := range totals {
		for class, bytes := range s {
			if !l.counted && bytes > 0 {
				l.add(project, "before the first count: "+project, Class(class), bytes)
			}
		}
	}
}

// Begin is said before everything is counted anew, Replace with the result, by task: what came in between
// is on top of it. (What was stored in between and found by the count too is counted twice until the next.)
func (l *Ledger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = map[string]*account{}
}

// Replace takes a new count; see Begin.
func (l *Ledger) Replace(found map[string]Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := maps.Clone(l.since)
	l.tasks, l.projects, l.since, l.others, l.counted = map[string]*account{}, map[string]*Sums{}, nil, nil, true
	for task, e := range found {
		for class, bytes := range e.Bytes {
			if bytes != 0 {
				l.add(e.Project, task, Class(class), bytes)
			}
		}
	}
	for task, a := range since {
		for class, bytes := range a.bytes {
			if bytes != 0 {
				l.add(a.project, task, Class(class), bytes)
			}
		}
	}
}

// Entry is what was found of one task.
type Entry struct {
	Project string
	Bytes   Sums
}
