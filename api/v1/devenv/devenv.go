package devenv

import (
	"cmp"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/lending"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/steady"
)

// Kind is the kind's name.
const Kind api.Kind = "DevEnvironment"

// Role is the name of its one role.
const Role = "env"

// Row is its row in the table of kinds.
var Row = api.KindInfo{
	Kind: Kind, Singular: "environment", Plural: "dev-environments", Aliases: []string{"env", "envs", "environments", "devenvironment", "devenvironments", "dev-environment"},
	IDPrefix: "env", Project: true, Phased: true, Users: true, Class: "environment",
	New: func() api.Object { return &DevEnvironment{} },
}

// DevEnvironment is a machine to work on: a home folder that stays, and processes around it while it runs.
type DevEnvironment struct {
	Meta   api.Meta `json:"metadata"`
	Spec   Spec     `json:"spec"`
	Status Status   `json:"status,omitzero"`
}

// Type says what an environment is for.
type Type string

// The types.
const (
	Notebook  Type = "notebook"
	Training  Type = "training"
	Inference Type = "inference"
	Custom    Type = "custom"
)

// Types are all of them, in the order in which they are shown.
var Types = []Type{Notebook, Training, Inference, Custom}

// Spec is the user's wish.
type Spec struct {
	Description string `json:"description,omitempty" maxLength:"4096"`
	Type        Type   `json:"type,omitempty" enum:"notebook,training,inference,custom" doc:"What it is for; custom when absent."`
	Image       string `json:"image,omitempty" maxLength:"512" doc:"What it runs in; host, or nothing, is the node's own system."`
	// Resources may change between stop and start, like all that follows but the zone.
	Resources   api.Resources    `json:"resources,omitzero" doc:"At most what the operator allows; 8 accelerators, 128 cores and 1Ti of memory where they say nothing."`
	Storage     api.Bytes        `json:"storage,omitempty" explicit:"nonzero" doc:"What its home may hold, and as much again what is written over its image; beyond it the environment is stopped with DiskLimitExceeded. 50Gi when absent, at most what the operator allows, 2Ti where they say nothing."`
	Env         []api.EnvVar     `json:"env,omitempty"`
	SecretFiles []api.SecretFile `json:"secretFiles,omitempty" doc:"Values of secrets as files in $FERMI_SECRETS."`
	// Credentials are as those of a task.
	Credentials []api.CredentialRef `json:"credentials,omitempty" doc:"Secrets of type registry or s3: accounts for its image, and files that docker's and S3's clients read."`
	Begin
	Zone  string    `json:"zone,omitempty" doc:"Where it runs; chosen at the first start when absent. Its home stays there."`
	Spot  spot.Rule `json:"spot,omitempty" enum:"never,prefer,only" doc:"Nodes that may be taken away at short notice: never, prefer (while they have room) or only; as good as others when absent."`
	Queue string    `json:"queue,omitempty" doc:"The project's own when absent."`
	// Priority is not above what the project may have.
	Priority *int `json:"priority,omitempty" doc:"Larger wins; that of environments, 400, when absent."`
	Ways
	Rest
}

// Begin is what is started with an environment. Without a command it only waits for shells.
type Begin struct {
	Command    []string           `json:"command,omitempty" doc:"What is started with it, in its home; the environment ends with it. Nothing when absent: it runs until it is stopped."`
	EntryPoint bool               `json:"entryPoint,omitempty" doc:"Start what its image starts by itself, in the image's working directory; instead of a command."`
	Git        *api.Git           `json:"git,omitempty" doc:"A repository that is cloned into its home, in a folder of its name, at a start where there is no such folder."`
	Dotfiles   *api.Git           `json:"dotfiles,omitempty" doc:"Likewise, as ~/.dotfiles; what begins with a dot in it is linked into the home where nothing of that name is."`
	From       *mount.AssetRef    `json:"from,omitempty" doc:"A snapshot of a home, by the dataset that keeps it: what its own home begins with. It counts before its first start alone; its path means nothing."`
	Restart    *api.RestartPolicy `json:"restartPolicy,omitempty" doc:"How often the command is started again when it fails; 3 times an hour when absent."`
}

// Rest is when an environment runs. It may change while it does.
type Rest struct {
	Idle *Idle `json:"idle,omitempty" doc:"When it is stopped because nobody works in it; as the operator set it when absent."`
	// Schedule may be half of one: only stops, or only starts.
	Schedule *Schedule `json:"schedule,omitempty" doc:"When it is started and stopped, by the clock."`
	Asked
}

// Asked is written by verbs.
type Asked struct {
	// Kept is written by the verb keep.
	Kept *time.Time `json:"kept,omitempty" doc:"Written by keep: it counts as activity at that time."`
	// Stop and Starts are written by the verbs stop and start.
	Stop   bool `json:"stop,omitempty" doc:"It shall not run."`
	Starts int  `json:"starts,omitempty" minimum:"0" doc:"Counts the calls of start; larger than it was asks for another start."`
	// Links are written by share and unshare.
	Links []Link `json:"links,omitempty" doc:"Written by share and unshare: addresses by which anybody who has one reaches a port for a time."`
	// Resets is written by the verb reset.
	Resets int `json:"resets,omitempty" minimum:"0" doc:"Counts the calls of reset; where it has grown, what was written over the image is thrown away before the next start."`
	// Snapshots is written by the verb snapshot, and by stop while one is being made.
	Snapshots int `json:"snapshots,omitempty" minimum:"0" doc:"Counts the calls of snapshot; larger than it was, its home is kept as a version of a dataset while it is stopped; smaller, the one that is being made is given up."`
	// Move is written by the verb move, and by stop before it has begun.
	Move *HomeMove `json:"move,omitempty" doc:"Written by move: where its home shall be."`
}

// Idle is when nobody works in an environment any more.
type Idle struct {
	After  api.Duration    `json:"after,omitempty" explicit:"nonzero" doc:"Without activity for so long it is stopped; at least 1m. As the operator set it when absent."`
	Never  bool            `json:"never,omitempty" doc:"It is not stopped by itself."`
	Counts []activity.Name `json:"counts,omitempty" doc:"Signals that are activity: terminal, notebook, ports, process, cpu, device, deviceMemory, training. All when absent."`
}

// Schedule is when an environment is started and stopped by the clock. Between two times people may start and stop it as they like.
type Schedule struct {
	Start    string `json:"start,omitempty" maxLength:"128" doc:"Minute, hour, day of the month, month and day of the week, as cron has them: 0 9 * * 1-5 is nine o'clock on working days."`
	Stop     string `json:"stop,omitempty" maxLength:"128" doc:"Likewise."`
	TimeZone string `json:"timeZone,omitempty" maxLength:"64" doc:"By whose clock, such as Asia/Shanghai; UTC when absent."`
}

// Status is what its controller says of it.
type Status struct {
	steady.Status
	Idle *Idling `json:"idle,omitempty" doc:"That it was warned, or stopped, because nobody works in it."`
	// Schedule is what of the clock was heeded.
	Schedule *Scheduled `json:"schedule,omitempty" doc:"What its schedule did last."`
	Lent
	HomeState
}

// Lent is who trains inside it.
type Lent struct {
	InUseBy   string     `json:"inUseBy,omitempty" doc:"The task whose processes run inside it; stopping or deleting it ends that task."`
	TrainedAt *time.Time `json:"trainedAt,omitempty" doc:"When a task that ran inside it left it last."`
}

// Scheduled is how far a schedule was heeded.
type Scheduled struct {
	Schedule
	Since   time.Time  `json:"since" doc:"Times up to this were heeded."`
	Stopped *time.Time `json:"stopped,omitempty" doc:"When it stopped the environment, which has not been started since."`
}

// Idling is what came of idleness since the last start. What its signals say now is told by its activity.
type Idling struct {
	WarnedAt *time.Time    `json:"warnedAt,omitempty" doc:"When it was said that it will be stopped; absent: somebody works in it."`
	StopsAt  *time.Time    `json:"stopsAt,omitempty" doc:"When it will be stopped, unless something happens."`
	LastBy   activity.Name `json:"lastBy,omitempty" doc:"The signal that was active last."`
	LastAt   *time.Time    `json:"lastAt,omitempty" doc:"When it was."`
	Stopped  bool          `json:"stopped,omitempty" doc:"It was stopped for it."`
}

// Ways are how people come in, and data. Those of people may change while it runs; other data is there after the next start.
type Ways struct {
	mount.Lists
	// Volumes are shared by all of the project that name them.
	Volumes []mount.Volume `json:"volumes,omitempty" maxItems:"32" doc:"Folders of the machines, by the names that an operator gave them and the project was granted; there after the next start."`
	Shared  bool           `json:"shared,omitempty" doc:"Members of its project may enter it; otherwise only its owner may."`
	Ports   []Port         `json:"ports,omitempty" doc:"Ports that have an address of their own in browsers; a notebook's own, 8888, and that of VS Code, 13337, need no mention."`
	VSCode  bool           `json:"vscode,omitempty" doc:"VS Code in the browser, beside what else it runs; there after the next start."`
}

// Port is one on which programs in the environment listen.
type Port struct {
	Port int    `json:"port" minimum:"1" maximum:"65535"`
	Name string `json:"name,omitempty" maxLength:"63" doc:"What listens there, for people."`
}

// NotebookPort is where the notebook of an environment of that type listens.
const NotebookPort = 8888

// VSCodePort is where VS Code listens in an environment that has it.
const VSCodePort = 13337

// AllPorts are those that have an address, the notebook's and that of VS Code first.
func (e *DevEnvironment) AllPorts() []Port {
	ports := e.Spec.Ports
	own := func(is bool, port int, name string) {
		if is && !slices.ContainsFunc(ports, func(p Port) bool { return p.Port == port }) {
			ports = append([]Port{{port, name}}, ports...)
		}
	}
	own(e.Spec.VSCode, VSCodePort, "vscode")
	own(e.IsNotebook(), NotebookPort, "jupyter")
	return ports
}

// IsNotebook says that it starts a notebook of itself: it is of that type, and no other command was named.
func (e *DevEnvironment) IsNotebook() bool {
	return e.Spec.Type == Notebook && len(e.Spec.Command) == 0 && !e.Spec.EntryPoint
}

// Kind is DevEnvironment.
func (*DevEnvironment) Kind() api.Kind { return Kind }

// GetMeta is the metadata.
func (e *DevEnvironment) GetMeta() *api.Meta { return &e.Meta }

// hold is what runs where the user named nothing: it waits for the end.
var hold = []string{"fermi", "hold"}

// Hold is the argument of the program that makes it wait.
const Hold = "hold"

// notebook starts Jupyter where there is one, and else says what is missing and waits.
var notebook = []string{"fermi", "notebook"}

// withVSCode goes before the command of an environment that has VS Code.
var withVSCode = []string{"fermi", "with-vscode"}

// WithoutVSCode is what a command is beside VS Code; is says that it was.
func WithoutVSCode(command []string) (own []string, is bool) {
	if len(command) > len(withVSCode) && slices.Equal(command[:len(withVSCode)], withVSCode) {
		return command[len(withVSCode):], true
	}
	return command, false
}

// role is its one role, as the rest of the house sees it.
func (e *DevEnvironment) role() api.Role {
	s := &e.Spec
	r := api.Role{
		Name: Role, Replicas: 1, Ranks: 1, Resources: s.Resources, Image: s.Image, Command: s.Command, Env: s.Env, SecretFiles: s.SecretFiles,
		Standby: &api.Standby{Disabled: true},
	}
	switch {
	case s.EntryPoint: // the image's own
	case e.IsNotebook():
		r.Command = notebook
	case len(r.Command) == 0:
		r.Command = hold
	}
	if s.VSCode && len(r.Command) > 0 {
		r.Command = slices.Concat(withVSCode, r.Command)
	}
	return r
}

// Workload is the view.
func (e *DevEnvironment) Workload() api.Workload {
	w := api.Workload{
		Kind: Kind, Meta: &e.Meta, Queue: e.Spec.Queue, Priority: api.DefaultPriority(Kind), Roles: []api.Role{e.role()}, Stop: e.Spec.Stop || e.Meta.DeletedAt != nil,
		Program: api.Program{Credentials: e.Spec.Credentials, Needs: mount.Needs{Lists: e.Spec.Lists, Clones: e.clones(), Volumes: e.Spec.Volumes, Home: e.Begins()}},
		Wish:    api.Wish{Fixed: true, Node: e.Status.Home}, Host: lending.Terms{Lends: true, Private: !e.Spec.Shared, Home: e.HomeName()},
	}
	if e.Saves() { // it does that, and nothing else
		w.Roles, w.Program, w.Host.Lends = []api.Role{Snapshots{e}.role()}, api.Program{}, false
		if (Moves{e}).TakesLayer() {
			w.Program.Credentials = e.Spec.Credentials
		}
		w.Stop = e.Meta.DeletedAt != nil || e.Spec.Snapshots < e.Status.Snapshot.Count
	}
	var allow []string
	if e.Spec.Zone != "" {
		allow = []string{e.Spec.Zone}
	} else if len(e.Status.Zones) == 1 && e.Status.Attempt > 0 { // its home is there
		allow = e.Status.Zones
	}
	if allow != nil || e.Spec.Spot != "" {
		w.Wish.Zones = &api.ZoneRules{Allow: allow, Spot: e.Spec.Spot}
	}
	if e.Spec.Priority != nil {
		w.Priority = *e.Spec.Priority
	}
	e.Status.Show(&w)
	return w
}

// dotfiles is the folder of them in the home.
const dotfiles = ".dotfiles"

// clones are the repositories of its home.
func (e *DevEnvironment) clones() (out []mount.Clone) {
	for _, c := range []struct {
		git           *api.Git
		field, folder string
	}{{e.Spec.Git, "spec.git", ""}, {e.Spec.Dotfiles, "spec.dotfiles", dotfiles}} {
		if g := c.git; g != nil {
			out = append(out, mount.Clone{URL: g.URL, Revision: g.Revision, Submodules: g.Submodules, Secret: g.Secret, Folder: cmp.Or(c.folder, mount.FolderName(g.URL)), Links: c.folder != "", Field: c.field})
		}
	}
	return out
}

// WithTraining is a table that was heard at this moment with what is known here: whether a task trains inside it, or when one did.
func (e *DevEnvironment) WithTraining(t activity.Table, heard time.Time) activity.Table {
	if t.Of(activity.Training) != nil {
		return t
	}
	s := activity.Signal{Name: activity.Training, Active: e.Status.InUseBy != "", Value: e.Status.InUseBy}
	if at := e.Status.TrainedAt; at != nil && at.After(t.Since.Add(heard.Sub(t.At))) && at.Before(heard) {
		last := at.Add(t.At.Sub(heard))
		s.Last = &last
	}
	t.Signals = append(slices.Clone(t.Signals), s)
	return t
}

// IsShared says that members of its project may enter it.
func (e *DevEnvironment) IsShared() bool { return e.Spec.Shared }

// IsDue says that somebody asked for a start after it had ended.
func (e *DevEnvironment) IsDue() bool {
	return e.Status.Phase.Finished() && !e.Spec.Stop && e.Meta.DeletedAt == nil && e.Spec.Starts > e.Status.Starts
}
