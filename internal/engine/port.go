package engine

import (
	"context"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/hold"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// Name is a replica's deterministic name: task id, role, index, attempt.
type Name string

// NameOf makes the name: "task-…-worker-0-1".
func NameOf(taskID, role string, index, attempt int) Name {
	return Name(taskID + "-" + role + "-" + strconv.Itoa(index) + "-" + strconv.Itoa(attempt))
}

// Parse undoes NameOf; zeros where it is no name of this owner.
func (n Name) Parse(taskID string) (role string, index, attempt int) {
	parts := strings.Split(strings.TrimPrefix(string(n), taskID+"-"), "-")
	last := len(parts) - 1
	if last < 2 {
		return "", 0, 0
	}
	index, err := strconv.Atoi(parts[last-1])
	attempt, err2 := strconv.Atoi(parts[last])
	if err != nil || err2 != nil {
		return "", 0, 0
	}
	return strings.Join(parts[:last-1], "-"), index, attempt
}

// Replica is everything a launcher needs to run one replica. It is written to disk as JSON.
type Replica struct {
	Name        Name   `json:"name"`
	TaskID      string `json:"taskId"`
	Task        string `json:"task"` // the task's name
	DisplayName string `json:"displayName"`
	Project     string `json:"project"`
	Owner       string `json:"owner"`
	Role        string `json:"role"`
	Index       int    `json:"index"`
	Attempt     int    `json:"attempt"`
	Ranks       int    `json:"ranks"`               // processes of this replica
	Preflight   bool   `json:"preflight,omitempty"` // look at the node and connect to peers before the first start
	Zone        string `json:"zone"`
	Node        string `json:"node"`

	Command []string     `json:"command"` // command and args
	Env     []api.EnvVar `json:"env,omitempty"`
	// SecretFiles, Credentials and Env name secrets; their values come over the link and are never in this record.
	SecretFiles     []api.SecretFile    `json:"secretFiles,omitempty"`
	Credentials     []api.CredentialRef `json:"credentials,omitempty"`
	WorkingDir      string              `json:"workingDir,omitempty"`
	Code            *api.Code           `json:"code,omitempty"`
	HyperParameters map[string]any      `json:"hyperParameters,omitempty"`
	Resources       api.Resources       `json:"resources"`
	// Devices are exactly the assigned ones.
	Devices    []api.Device `json:"devices,omitempty"`
	Virtual    bool         `json:"virtual,omitempty"` // node is virtual: CPU and memory are nominal, no limits
	RunTimeout api.Duration `json:"runTimeout,omitempty"`
	StopGrace  api.Duration `json:"stopGrace"`
	OutputLogs string       `json:"outputLogs,omitempty"`
	// Standby is the wish for one; nil: none is wished, and Python commands may have one.
	Standby *api.Standby `json:"standby,omitempty"`
	// Recipe is what the framework adds; nil for plain commands. Command is the recipe's already.
	Recipe *Recipe `json:"recipe,omitempty"`
	// KeepLocal says which checkpoints stay on the node's disk.
	KeepLocal api.CheckpointKeep `json:"keepLocal,omitzero"`
	FolderSaves
	// Elastic is set where the number of ranks may change.
	Elastic *Elastic `json:"elastic,omitempty"`
	Duties
	// Inside is the replica inside which this one runs: in its cgroup, on its devices and, where it has no
	// code of its own, in its folder. "": it has its own place.
	Inside Name `json:"inside,omitempty"`
	// Image is the one that its processes run in; "": the node's own system.
	Image string `json:"image,omitempty"`
	Tenancy
}

// Tenancy is who a replica belongs to on its node, and what of the node's is theirs.
type Tenancy struct {
	// UID is the project's on machines that keep projects apart; 0 where none does.
	UID int `json:"uid,omitempty"`
	// Folders are the names of the machines' folders that the project was granted.
	Folders []string `json:"folders,omitempty"`
	// HostNetwork: it uses the machine's network, because its gang is on several machines.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Home names the home folder that its processes have and that outlives the replica: the id of who owns it. One replica at a
	// time has it. "": the replica's own, which goes with it.
	Home string `json:"home,omitempty"`
	// HomeFrom is the snapshot that an empty home is filled with before anything starts; nil: none.
	HomeFrom *mount.AssetRef `json:"homeFrom,omitempty"`
	// HomeLimit is what that home may hold.
	HomeLimit api.Bytes `json:"homeLimit,omitempty"`
	// Mounts are versions of datasets and models that its processes find as folders, read-only.
	Mounts mount.Lists `json:"mounts,omitzero"`
	// Volumes are folders of the node, of those that the project was granted, that its processes find at their paths.
	Volumes []mount.Volume `json:"volumes,omitempty"`
	// Layer: what HomeFrom keeps of what was written over the image is written over it here, before anything starts.
	Layer bool `json:"layer,omitempty"`
	// Resets counts how often its owner wanted what was written over its images thrown away.
	Resets int `json:"resets,omitempty"`
}

// Duties are what a replica does beside running its ranks.
type Duties struct {
	// Spare: it holds no rank until one of the others is lost; meanwhile its standby, if one is wished, waits.
	Spare bool `json:"spare,omitempty"`
	// Peer: launchers keep what ranks save in each other's memory too.
	Peer bool `json:"peer,omitempty"`
	// Images is what it does with images, beside running in one; "": nothing.
	Images ImageDuty `json:"images,omitempty"`
	// Clones are repositories that are brought into its home.
	Clones []mount.Clone `json:"clones,omitempty"`
	// Serve is how the launcher finds out whether its processes answer requests; nil: they answer none.
	Serve *Serve `json:"serve,omitempty"`
}

// ImageDuty is what a replica does with images.
type ImageDuty string

// The duties.
const (
	// ImageBuild: its processes are root of a user namespace on the node's own system, and their home is what the project's builds there share.
	ImageBuild ImageDuty = "build"
	// ImagePull: its image is brought to the node and held; its processes run in the node's own system.
	ImagePull ImageDuty = "pull"
	// ImageKeep: their home is kept, and what was written over its image is found in one file beside it; they run in the node's own system.
	ImageKeep ImageDuty = "keep"
	// ImageSave: they see what was written over its image by the owner of Home, and the bare image beside, and change nothing.
	ImageSave ImageDuty = "save"
)

// Serve is how a replica that answers requests is asked whether it can.
type Serve struct {
	Service string `json:"service,omitempty"` // whose replica it is
	Port    int    `json:"port,omitempty"`    // that it listens on; 0: the one that its launcher gives it, $FERMI_PORT
	Path    string `json:"path,omitempty"`    // asked with GET, and answered with 2xx or 3xx; "": a connection is enough
	// Every is the time between two questions, Timeout how long an answer may take, Failures how many in a row make it unready.
	Every    api.Duration `json:"every"`
	Timeout  api.Duration `json:"timeout"`
	Failures int          `json:"failures"`
}

// Serving is whether the processes of a replica answer requests, as its launcher finds by asking them.
type Serving struct {
	Ready bool
	Port  int    // where they listen, at the replica's address
	Why   string // they don't answer; for people
}

// Reach is where a replica's ranks are reached, and what they wait for.
type Reach struct {
	Address  string    // "": by the machine's loopback
	Serve    int       // port that its ranks may serve others on, as long as the launcher lives
	Serving  *Serving  // nil: it answers no requests
	Bringing *Bringing // nil: nothing is on its way to the node
}

// Bringing is how far something is that has to be on the node before ranks start.
type Bringing struct {
	Name        string // such as digits@3
	Done, Total int64  // bytes
}

// Elastic is what the ranks of an elastic task need to know about its size.
type Elastic struct {
	World int           `json:"world"` // ranks it asked for
	Batch api.BatchRule `json:"batch"`
}

// Recipe is the environment and the files of a framework. ${FERMI_RECIPE} and ${FERMI_OUTPUT} in them
// and in the command stand for the folders, which the launcher alone knows.
type Recipe struct {
	Env   []api.EnvVar     `json:"env,omitempty"`
	Files []api.RecipeFile `json:"files,omitempty"`
	// Each is the environment of each rank, instead of Env, where a replica has several.
	Each [][]api.EnvVar `json:"each,omitempty"`
	// Ports is how many the launcher reserves for its processes, Table how many all launchers do
	// together: ${FERMI_PORT_n} is the n-th of them, ${FERMI_LEAD_HOST} and _PORT are rank 0's.
	Ports int `json:"ports,omitempty"`
	// Bare: processes are numbered by the program that starts them, not by their launcher.
	Bare  bool `json:"bare,omitempty"`
	Table int  `json:"table,omitempty"`
	// Hosts is how many replicas the texts name: ${FERMI_HOST_n} is the address of the n-th, ${FERMI_INTERFACE}
	// the interface to them.
	Hosts int `json:"hosts,omitempty"`
}

// State is how far a replica got.
type State string

// The states, in order; a replica never goes back.
const (
	StateCreated State = "Created" // exists; its launcher starts or waits for go
	StateRunning State = "Running" // the user's process was started
	StateExited  State = "Exited"  // the user's process tree has ended; logs and outputs may still be on their way
	StateDone    State = "Done"    // everything was handed over; Remove may be called
)

// Observation is the newest of what is known about a replica.
type Observation struct {
	Name    Name
	TaskID  string
	State   State
	Started time.Time // of the user's process
	// Boot and Up are the same by a clock that nobody sets: in which boot of its machine, and how long that had been up; zero
	// where it is not known.
	Boot string
	Up   time.Duration
	Exit *Exit  // from Exited on
	Node string // where it is
	// Launched says that its launcher lives, or did; Version is the program's that it runs, "" where
	// it does not say: it is of a time when launchers did not.
	Launched bool
	Version  string
	// Address is where other replicas reach its processes, LauncherAddress where they reach its launcher; both without
	// a port, "" while not known. What the launcher itself reports over the link goes before.
	Address         string
	LauncherAddress string
	// Home is the one node that reaches its home, where the engine found that it is such a one; "": any, or not known.
	Home string
	// Ready says that its processes can be reached at Address: they were started and have not ended. An engine that
	// probes its replicas says so only after the probe has passed.
	Ready bool
}

// Exit is how it ended.
type Exit struct {
	Code    int       `json:"code"`             // exit code; 128+signal when signalled; -1 unknown
	Signal  string    `json:"signal,omitempty"` // "SIGKILL"
	Reason  string    `json:"reason"`           // see the Reasons below
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
	// Ran is how long the user's process ran by a clock that nobody sets; 0: not measured, or it never ran.
	Ran       time.Duration `json:"ran,omitempty"`
	CPUTime   time.Duration `json:"cpuTime"`
	PeakBytes int64         `json:"peakBytes"`
	// Rank is the process that decided; nil: it was none.
	Rank *int `json:"rank,omitempty"`
	Diagnosis
}

// Ended is when a process that began at start ended, by the clock as it stood at its start: what was measured counts, and
// not what the machine's clock was set to meanwhile.
func (e *Exit) Ended(start time.Time) time.Time {
	if e.Ran > 0 && !start.IsZero() {
		return start.Add(e.Ran)
	}
	return e.At
}

// Diagnosis is why a process failed, by its last words.
type Diagnosis struct {
	Cause       string `json:"cause,omitempty"`       // id of a rule of diagnose; "": nobody looked
	Fingerprint string `json:"fingerprint,omitempty"` // equal for the same failure
	Line        string `json:"line,omitempty"`        // the words that decided
	Step        int64  `json:"step,omitempty"`        // that it reported last
}

// The reasons of an Exit.
const (
	ReasonSucceeded    = "Succeeded"
	ReasonNonZero      = "ExitedNonZero"
	ReasonSignaled     = "Signaled"
	ReasonOutOfMemory  = "OutOfMemory"
	ReasonTimedOut     = "TimedOut"
	ReasonStopped      = "Stopped"      // we stopped it
	ReasonStartFailed  = "StartFailed"  // the command or its code could not be started: the user's to mend
	ReasonLauncherLost = "LauncherLost" // the launcher itself is gone; the cause says how
	ReasonSilent       = hold.Silent    // the launcher said nothing, and was given up without proof of its end
	ReasonNodeLost     = hold.Lost      // an operator said that its node is gone
	ReasonLeftEarly    = "LeftEarly"    // a rank ended well while others needed it
	ReasonProcessLimit = "ProcessLimit" // it could make no more processes, and gave up
	ReasonDiskLimit    = "DiskLimitExceeded"
	ReasonRefused      = "NodeRefused" // its node did not admit it: the place was not what it was thought to be. Nothing was started
)

// NodeReclaimed is the reason of a node that is not ready because its owner is about to take it away: a spot machine's notice, an autoscaler.
// What runs there leaves.
const NodeReclaimed = "Reclaimed"

// NodeUnwell is the reason of one that somebody who looks after it says has devices at fault. What runs there leaves.
const NodeUnwell = "Unwell"

// DevicesUnused is the reason of a node that is ready, and has devices that nobody here can use; its message says why.
const DevicesUnused = "DevicesUnused"

// IsLeft says by why a node is not ready that what runs there leaves.
func IsLeft(reason string) bool { return reason == NodeReclaimed || reason == NodeUnwell }

// The causes of ReasonLauncherLost that an engine can tell apart; they are rules of diagnose. Without one nobody knows.
const (
	CauseLauncherKilled     = "launcher-killed"      // the process, on a node that is up
	CauseNodeRestarted      = "node-restarted"       // the launcher was of an earlier boot
	CauseLauncherNotStarted = "launcher-not-started" // again and again
)

// Lost says that the replica's own processes did not end it: its launcher, or the node with it, is gone.
func (e *Exit) Lost() bool {
	return e.Reason == ReasonLauncherLost || e.Reason == ReasonSilent || e.Reason == ReasonNodeLost
}

// Engine starts and stops replicas on the nodes of its zones: what controllers need of it. Safe for concurrent use.
type Engine interface {
	// Start creates the replica and its launcher if absent; a replica that exists in any state
	// is left alone. An error means that it may or may not exist: call again.
	Start(ctx context.Context, r Replica) error
	// Stop asks the launcher to end the tree: SIGTERM, grace, SIGKILL. Returns at once; the end
	// comes as an observation. Without any grace a launcher that does not hear it is killed soon after, where the engine can. Unknown or ended replicas are fine. A replica not yet started
	// then never starts. An order counts while its leader leads: the next one repeats what it wants.
	Stop(ctx context.Context, name Name, grace time.Duration) error
	// Remove forgets a replica that is Done and deletes what it left. Unknown is fine.
	Remove(ctx context.Context, name Name) error
	// Replica is what is known of one; false: nothing.
	Replica(name Name) (Observation, bool)
	// Replicas lists what is known of a task's replicas, all attempts, by name; "" is all tasks.
	Replicas(taskID string) []Observation
}

// Adapter is an Engine with its life: what construction makes, one for each leadership. A new leader makes a new one over the
// same replicas; whatever the one before it had begun is found again, and its later orders count for nothing.
type Adapter interface {
	Engine
	// Run finds again what runs, then follows it and reports nodes, until ctx ends; it leaves all replicas running. Call it
	// once. An error, such as a leader of a later epoch, means that this adapter is of no more use.
	Run(ctx context.Context) error
	// Ready is closed when everything that runs was found again. Start, Stop and Remove wait for it.
	Ready() <-chan struct{}
	// Watch tells the feed all that is known now, then every change, until the feed is closed.
	Watch(f *Feed)
	// Nodes lists the machines that the engine reports (Meta.Name, Spec, Status filled), by name. whole is false while not
	// all of them are known: nothing follows from the absence of one.
	Nodes() (list []api.Node, whole bool)
}

// Briefed is an Adapter whose launchers may have no folder of ours: what a replica is, and what its place adds to that, is asked
// for over the link. Spec gives it as JSON of record.Spec; fault NotFound where the replica is not known.
type Briefed interface {
	Spec(ctx context.Context, name Name) ([]byte, error)
}

// Prompted is an Adapter that learns of changes late by itself: it looks at a replica again when somebody says that
// it changed. Poke never blocks.
type Prompted interface {
	Poke(name Name)
}

// FolderSaves says how a script saves that does not call the SDK: by itself, or by hooks in its libraries.
type FolderSaves struct {
	// CheckpointFolder is where the script itself saves, within its working directory; "": it does not.
	CheckpointFolder string `json:"checkpointFolder,omitempty"`
	// FolderAnew: what earlier launchers of the task left of it counts no more, because somebody chose where to begin.
	FolderAnew bool `json:"folderAnew,omitempty"`
	// Instant has the loops of known libraries save in memory by themselves.
	Instant bool `json:"instant,omitempty"`
}

// FromFolder and FromPeer say, where a tier is named otherwise, that ranks began from what lay in the folder that their script saves to,
// and that a state of at least one of them came from another launcher's memory.
const (
	FromFolder = "folder"
	FromPeer   = "peer"
)
