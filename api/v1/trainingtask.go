package v1

import (
	"cmp"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/api/v1/roundtrip"
	"github.com/fermi-cluster/fermi/api/v1/spot"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/fsm"
)

// TrainingTask is a batch of processes that start together, run to an end, and leave outputs.
type TrainingTask struct {
	Meta   Meta               `json:"metadata"`
	Spec   TrainingTaskSpec   `json:"spec"`
	Status TrainingTaskStatus `json:"status,omitzero"`
}

// Kind is TrainingTask.
func (*TrainingTask) Kind() Kind { return KindTrainingTask }

// GetMeta is the metadata.
func (t *TrainingTask) GetMeta() *Meta { return &t.Meta }

// Framework is the launch recipe.
type Framework string

// Frameworks lists every recipe id.
var Frameworks = []Framework{
	"pytorch-ddp", "pytorch-fsdp", "deepspeed", "horovod", "megatron-lm", "tensorflow",
	"paddle", "mxnet", "jax", "mpi", "ray", FrameworkPlain,
}

// FrameworkPlain runs the command as it is.
const FrameworkPlain Framework = "plain"

// PriorityClasses are names for usual priorities; larger wins.
var PriorityClasses = map[string]int{
	"inference": 1000, "training": 500, "environment": 400, "preemptible": 100,
}

// TrainingTaskSpec is the user's wish.
type TrainingTaskSpec struct {
	Description string    `json:"description,omitempty" maxLength:"4096"`
	Framework   Framework `json:"framework,omitempty" doc:"Launch recipe; plain when absent."`
	// Strategy, Precision and GradCompression are for recipes other than plain.
	Strategy        *Strategy       `json:"strategy,omitempty" doc:"How the processes share the work; the framework's usual way when absent."`
	Precision       Precision       `json:"precision,omitempty" enum:"fp32,fp16,bf16" doc:"fp32, fp16 (with loss scaling) or bf16; the script's own when absent."`
	GradCompression GradCompression `json:"gradCompression,omitempty" enum:"none,fp16,bf16,powersgd" doc:"none, fp16, bf16 or powersgd: gradients on the wire, through the SDK."`
	Roles           []Role          `json:"roles" nullable:"false" minItems:"1" maxItems:"16"`
	// Inside are tasks that stand for environments, one for each replica of the only role.
	Inside []string `json:"inside,omitempty" maxItems:"1024" doc:"Names of running tasks of one replica in the project, one for each replica: its processes start inside them, on their devices. The first has rank 0."`
	Code   *Code    `json:"code,omitempty"`
	// HyperParameters reach the process as FERMI_HP_<NAME> and as the JSON file $FERMI_HP_FILE.
	HyperParameters map[string]any `json:"hyperParameters,omitempty" doc:"Scalars; given as environment and as a JSON file."`
	Restart         *RestartPolicy `json:"restartPolicy,omitempty"`
	Batch           BatchRule      `json:"batch,omitempty" enum:"keepGlobal,rescaleLR" doc:"Elastic tasks: keepGlobal (when absent) keeps the batch of all ranks by accumulating gradients, rescaleLR keeps each rank's and scales the learning rate; the SDK says how."`
	Priority        *int           `json:"priority,omitempty" minimum:"0" maximum:"10000" doc:"Larger wins; 0 to 10000."`
	PriorityClass   string         `json:"priorityClass,omitempty" doc:"inference 1000, training 500 (default), environment 400, preemptible 100."`
	Queue           string         `json:"queue,omitempty" doc:"The project's queue when absent."`
	Zones           *ZoneRules     `json:"zones,omitempty"`
	Topology        *Topology      `json:"topology,omitempty" doc:"pack (when absent), spread, or {maxPerRack: n}."`
	// ExpectedTime is how long it runs, as far as the user knows: for the price, for backfill.
	ExpectedTime Duration   `json:"expectedTime,omitempty" explicit:"nonzero" doc:"How long it will run, about; learned when absent."`
	Deadline     *time.Time `json:"deadline,omitempty" doc:"When it should have ended."`
	Preemptible  bool       `json:"preemptible,omitempty" doc:"May be stopped for others and started again; pays the spot price."`
	// Deferrable lets the task wait for the hours before its deadline that suit it best.
	Deferrable Deferral `json:"deferrable,omitempty" doc:"cheap or green: wait for the cheapest or cleanest hours that meet the deadline, or of 24 hours where there is none; needs expectedTime."`
	// Stragglers is what to do about ranks that the others wait for.
	Stragglers StragglerRule `json:"stragglers,omitempty" enum:"report,replace" doc:"A rank much slower than the others: report (when absent) names it, replace also moves the task to a place without its node; that is a restart."`
	Preflight  Preflight     `json:"preflight,omitempty" enum:"off,warn,require" doc:"Checks before the first start: ports and speed between replicas, versions, disk, shared memory. warn when absent and there is more than one replica, otherwise off."`
	Timeouts   *Timeouts     `json:"timeouts,omitempty"`
	Checkpoint *Checkpoints  `json:"checkpoint,omitempty" doc:"What is kept of the states that ranks save through the SDK; see docs/guide/checkpoints.md."`
	Image      string        `json:"image,omitempty" maxLength:"512" doc:"What the processes run in, such as repo/name:tag, or name@sha256:…; host, and when absent, is the node's own system. An account for its registry is named in credentials."`
	Datasets   []AssetRef    `json:"datasets,omitempty" maxItems:"32" doc:"Versions of datasets that its processes find as folders, read-only."`
	Models     []AssetRef    `json:"models,omitempty" maxItems:"32" doc:"Versions of models, likewise."`
	Outputs    *Outputs      `json:"outputs,omitempty"`
	// Credentials reach every replica as DOCKER_CONFIG and REGISTRY_AUTH_FILE, and as
	// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE.
	Credentials []CredentialRef `json:"credentials,omitempty" doc:"Secrets of type registry or s3, given as the files that docker's and S3's clients read."`
	// Stop is the wish that the task end; set by the stop verb, unset by the restore verb alone.
	Stop    bool    `json:"stop,omitempty" doc:"Set by the stop verb: the task ends and keeps its outputs."`
	Restore *Rewind `json:"restore,omitempty" doc:"Set by the restore verb: the task goes on from this checkpoint of its own, also when it had ended."`
}

// Role is a set of equal replicas.
type Role struct {
	Name        string    `json:"name,omitempty" pattern:"^([a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?)?$" doc:"worker when absent."`
	Replicas    int       `json:"replicas,omitempty" explicit:"nonzero" minimum:"1" maximum:"16384" doc:"1 when absent."`
	Ranks       int       `json:"ranks,omitempty" explicit:"nonzero" minimum:"1" maximum:"64" doc:"Processes a replica; when absent 1, or one for each accelerator with a distributed framework."`
	MinReplicas *int      `json:"minReplicas,omitempty" doc:"Elastic: it starts and goes on with so few; replicas when absent."`
	MaxReplicas *int      `json:"maxReplicas,omitempty" doc:"Elastic: it grows up to so many; replicas when absent."`
	Spares      int       `json:"spares,omitempty" minimum:"0" maximum:"64" doc:"Replicas more than its ranks need, placed and charged with them: each waits with its imports done, holds no rank, and takes the place of one that is lost."`
	Resources   Resources `json:"resources,omitzero"`
	Image       string    `json:"image,omitempty" maxLength:"512" doc:"Instead of the task's; host is the node's own system."`
	Command     []string  `json:"command,omitempty" doc:"With an image and framework plain, what the image starts by itself when absent."`
	Args        []string  `json:"args,omitempty" doc:"After the command; without one, in the place of what the image gives its entry point."`
	Env         []EnvVar  `json:"env,omitempty"`
	// SecretFiles appear in $FERMI_SECRETS while the process runs.
	SecretFiles []SecretFile `json:"secretFiles,omitempty" doc:"Values of secrets as files in $FERMI_SECRETS."`
	WorkingDir  string       `json:"workingDir,omitempty" doc:"Relative to the code; the code's root when absent."`
	Standby     *Standby     `json:"standby,omitempty" doc:"How a Python command gets its next process quickly after a failure."`
	Restart     RoleRestart  `json:"restart,omitempty" enum:"task,role" doc:"Who starts again when one of its processes fails: task (when absent), all roles that say so; or role, this one alone, whose ranks are counted by themselves."`
}

// Standby is the interpreter that waits beside the ranks of a Python command, its imports done, and from
// which the ranks of the next generation are forked.
type Standby struct {
	Disabled bool     `json:"disabled,omitempty" doc:"Start a fresh interpreter each time."`
	Preload  []string `json:"preload,omitempty" maxItems:"32" doc:"Modules to import ahead; torch when absent and the framework is one of PyTorch's."`
}

// RoleRestart is who starts again with a role.
type RoleRestart string

// The rules.
const (
	RestartTask RoleRestart = "task"
	RestartRole RoleRestart = "role"
)

// ImageHost is said instead of an image where the node's own system is meant.
const ImageHost = "host"

// ImageOf is what a role runs in; "": the node's own system.
func (s *TrainingTaskSpec) ImageOf(r *Role) string {
	image := cmp.Or(r.Image, s.Image)
	if image == ImageHost {
		return ""
	}
	return image
}

// Alone says that the role starts again, and is counted, by itself.
func (r *Role) Alone() bool { return r.Restart == RestartRole }

// RankCount is how many processes a replica has.
func (r *Role) RankCount() int {
	if r.Ranks == 0 {
		return 1
	}
	return r.Ranks
}

// EnvVar is one environment variable of the user's process.
type EnvVar struct {
	Name      string     `json:"name" pattern:"^[A-Za-z_][A-Za-z0-9_]*$"`
	Value     string     `json:"value,omitempty"`
	ValueFrom *SecretRef `json:"valueFrom,omitempty" doc:"Take the value from a secret instead."`
}

// Resources is what one replica needs.
type Resources struct {
	CPU           MilliCPU     `json:"cpu,omitempty" explicit:"nonzero" doc:"Cores, as 500m or 1.5; when absent 1, or 4 for each accelerator."`
	Memory        Bytes        `json:"memory,omitempty" explicit:"nonzero" doc:"As 16Gi; when absent 1Gi, or 16Gi for each accelerator."`
	Accelerators  Accelerators `json:"accelerators,omitzero"`
	SharedMemory  Bytes        `json:"sharedMemory,omitempty"`
	EphemeralDisk Bytes        `json:"ephemeralDisk,omitempty" doc:"What the replica may write on the node's disk; beyond it the replica is ended with DiskLimitExceeded. No bound when absent."`
	Processes     int          `json:"processes,omitempty" explicit:"nonzero" minimum:"16" maximum:"4194304" doc:"Processes and threads that the replica may have at once; 4096 when absent."`
}

// DefaultProcesses is how many processes and threads a replica may have when it does not say.
const DefaultProcesses = 4096

// ProcessLimit is how many processes and threads the replica may have at once.
func (r *Resources) ProcessLimit() int {
	if r.Processes == 0 {
		return DefaultProcesses
	}
	return r.Processes
}

// Accelerators is a number of devices of one type; the type is data ("A100", "Ascend 910").
type Accelerators struct {
	Type  string `json:"type,omitempty" doc:"Any one type when absent; A100|H800 is either, the first preferred."`
	Count int    `json:"count,omitempty" minimum:"0" maximum:"64"`
	Share Share  `json:"share,omitempty" explicit:"nonzero" doc:"Part of one device, as 0.5 or 500m, with count 1; the whole when absent."`
}

// Code says where the user's files come from; exactly one of folder, archive and git is set.
type Code struct {
	Folder  string `json:"folder,omitempty" doc:"A folder of the node, used in place: NAME/path below a folder that the project was granted (project spec.folders). An absolute path below one becomes that; others are refused (FolderNotAllowed). The owner of a single-tenant machine may name any absolute path."`
	Archive string `json:"archive,omitempty" doc:"Digest of an uploaded archive: sha256:<64 hex>."`
	Git     *Git   `json:"git,omitempty"`
	// Requirements is installed by the program's own processes, once a replica, into a virtual environment.
	Requirements string `json:"requirements,omitempty" doc:"Path in the code of a pip requirements file or a pyproject.toml: what it names is installed before the processes start. For commands that begin with python, on the node's own system."`
}

// Git is a revision of a repository, brought by each replica's launcher; no git program is needed.
type Git struct {
	URL        string `json:"url" doc:"https://…, ssh://… or git@host:path; never with a password."`
	Revision   string `json:"revision,omitempty" doc:"Branch, tag or commit; the default branch when absent."`
	Submodules bool   `json:"submodules,omitempty"`
	// Secret names a Secret with username and password, or ssh-privatekey and known_hosts.
	Secret string `json:"secret,omitempty" doc:"A Secret with username and password, or ssh-privatekey and known_hosts."`
}

// RestartPolicy allows MaxRestarts within Window; outside it old ones are forgotten.
type RestartPolicy struct {
	MaxRestarts int      `json:"maxRestarts"`
	Window      Duration `json:"window,omitempty" explicit:"nonzero" doc:"1h when absent."`
	Interval    Duration `json:"interval,omitempty" explicit:"nonzero" doc:"Another name for window."`
	// RdzvTimeout never delays that a loss is seen.
	RdzvTimeout Duration `json:"rdzvTimeout,omitempty" explicit:"nonzero" doc:"Longest wait for a replacement of a lost replica before an elastic task goes on with fewer; 30s when absent."`
}

// DefaultRdzvTimeout is for tasks that don't say.
const DefaultRdzvTimeout = Duration(30 * time.Second)

// BatchRule is what a change of the number of ranks does to an elastic task's batch.
type BatchRule string

// The rules.
const (
	BatchKeepGlobal BatchRule = "keepGlobal"
	BatchRescaleLR  BatchRule = "rescaleLR"
)

// Range is between how many replicas the role may have.
func (r *Role) Range() (low, high int) {
	low, high = r.Replicas, r.Replicas
	if r.MinReplicas != nil {
		low = *r.MinReplicas
	}
	if r.MaxReplicas != nil {
		high = *r.MaxReplicas
	}
	return low, high
}

// Elastic says that the number of replicas may change while the task runs.
func (s *TrainingTaskSpec) Elastic() bool {
	if s.Zones != nil && s.Zones.SurviveZoneLoss { // it keeps its size
		return false
	}
	for i := range s.Roles {
		if low, high := s.Roles[i].Range(); low != high {
			return true
		}
	}
	return false
}

// Placed is how many replicas of the role have a place: those with ranks, and the spares.
func (r *Role) Placed() int { return r.Replicas + r.Spares }

// Spares is how many replicas wait for one to be lost.
func (s *TrainingTaskSpec) Spares() (n int) {
	for i := range s.Roles {
		n += s.Roles[i].Spares
	}
	return n
}

// ZoneRules say where the task may run.
type ZoneRules struct {
	Allow []string `json:"allow,omitempty" doc:"Zone names; all when absent."`
	Deny  []string `json:"deny,omitempty"`
	// Split says how many replicas go to each zone; they are dealt role by role, zone by zone in the order of names.
	Split           where.Split `json:"split,omitempty" doc:"Replicas by zone: a number, or a span as 2..6; chosen by the platform when absent. They are dealt to the zones in the order of their names, role by role: with a role for each zone, each zone has nodes of its own size."`
	Balance         bool        `json:"balance,omitempty" doc:"Its replicas stand where most room is left, within split where that is given: zones fill up evenly."`
	SurviveZoneLoss bool        `json:"surviveZoneLoss,omitempty" doc:"Stand in at least two zones, so that the loss of any one leaves minReplicas of each role, or half of it where minReplicas is not less than replicas."`
	MaxLatency      Duration    `json:"maxLatency,omitempty" explicit:"nonzero" doc:"Largest usual round trip between two replicas' zones, as 2ms; no bound when absent."`
	SameRegion      RegionRule  `json:"sameRegion,omitempty" doc:"prefer (when absent) or require: zones of one region only."`
	Spot            spot.Rule   `json:"spot,omitempty" doc:"Nodes that may be taken away at short notice: never, prefer (while they have room) or only; as good as others when absent."`
	Data            []DataPlace `json:"data,omitempty" maxItems:"64" doc:"What the task reads and which zones have it: it starts there, unless waiting for room there takes longer than moving the bytes."`
	// Prefer is a wish, no rule; the queue's counts where it is absent.
	Prefer *where.Weights `json:"prefer,omitempty" doc:"What counts between zones that have room; as the queue says when absent, else the price alone."`
	Stay   bool           `json:"stay,omitempty" doc:"It is never moved so that others find room."`
}

// Topology is how a gang lies in racks.
type (
	Topology     = where.Topology
	TopologyMode = where.TopologyMode
)

// The forms of a topology.
const (
	TopologyPack    = where.TopologyPack
	TopologySpread  = where.TopologySpread
	TopologyBounded = where.TopologyBounded
)

// DataPlace is data that a task reads: how much, and which zones have all of it.
type DataPlace struct {
	Bytes Bytes    `json:"bytes" doc:"As 2Ti."`
	Zones []string `json:"zones" minItems:"1" doc:"Zones that have a whole copy."`
}

// RegionRule is how much a gang insists on one region.
type RegionRule string

// The rules.
const (
	RegionPrefer  RegionRule = "prefer"
	RegionRequire RegionRule = "require"
)

// Deferral is what a task waits for.
type Deferral string

// The reasons to wait.
const (
	DeferCheap Deferral = "cheap"
	DeferGreen Deferral = "green"
)

// Preflight is what the checks before the first start are for.
type Preflight string

// The ways.
const (
	PreflightOff     Preflight = "off"
	PreflightWarn    Preflight = "warn"
	PreflightRequire Preflight = "require"
)

// PreflightMode is the way that counts.
func (s *TrainingTaskSpec) PreflightMode() Preflight {
	replicas := 0
	for i := range s.Roles {
		replicas += s.Roles[i].Replicas
	}
	switch {
	case s.Preflight != "":
		return s.Preflight
	case replicas > 1:
		return PreflightWarn
	}
	return PreflightOff
}

// Timeouts end what takes too long; zero means none.
type Timeouts struct {
	Pending   Duration `json:"pending,omitempty" doc:"Longest wait in the queue."`
	Run       Duration `json:"run,omitempty" doc:"Longest run."`
	StopGrace Duration `json:"stopGrace,omitempty" explicit:"nonzero" doc:"Between SIGTERM and SIGKILL; when absent 30s, and 2m where it is preempted, drained or moved."`
}

// AssetRef names a version of a dataset or model and where it appears.
type AssetRef = mount.AssetRef

// Outputs say what of the run is kept. $FERMI_OUTPUT is always uploaded.
type Outputs struct {
	mount.Leaves
	Logs string   `json:"logs,omitempty" doc:"Further folder, relative to the working directory, uploaded as logs/."`
	Keep Duration `json:"keep,omitempty" doc:"How long outputs and logs are kept after the end; for ever when absent."`
}

// Phase is where a task stands.
type Phase string

// The phases of a training task.
const (
	PhasePending      Phase = "Pending"
	PhaseInitializing Phase = "Initializing"
	PhaseRunning      Phase = "Running"
	PhaseRecovering   Phase = "Recovering"
	PhaseCompleted    Phase = "Completed"
	PhaseFailed       Phase = "Failed"
	PhaseStopped      Phase = "Stopped"
)

// TaskPhases is the table of allowed moves.
var TaskPhases = fsm.Table[Phase]{
	"":                {PhasePending},
	PhasePending:      {PhaseInitializing, PhaseFailed, PhaseStopped},
	PhaseInitializing: {PhaseRunning, PhaseRecovering, PhasePending, PhaseFailed, PhaseStopped, PhaseCompleted},
	PhaseRunning:      {PhaseRecovering, PhasePending, PhaseCompleted, PhaseFailed, PhaseStopped},
	PhaseRecovering:   {PhaseRunning, PhasePending, PhaseCompleted, PhaseFailed, PhaseStopped},
	// Only the restore verb leads out of these.
	PhaseCompleted: {PhasePending}, PhaseFailed: {PhasePending}, PhaseStopped: {PhasePending},
}

// Finished says that the task will not run again, unless somebody restores it.
func (p Phase) Finished() bool {
	return p == PhaseCompleted || p == PhaseFailed || p == PhaseStopped
}

// TrainingTaskStatus is what the controllers saw and decided.
type TrainingTaskStatus struct {
	Phase   Phase      `json:"phase,omitempty"`
	Reason  string     `json:"reason,omitempty" doc:"Machine-readable: why it is in this phase."`
	Message fault.Text `json:"message,omitzero"`
	// Attempt numbers the sets of replicas; it only grows. 0: none was started yet.
	Attempt int `json:"attempt,omitempty"`
	// Generation numbers the memberships over all attempts; it only grows, and is written before
	// anyone is told. An attempt has a first one and, when a rank failed, further ones.
	Generation int `json:"generation,omitempty" doc:"Grows with every restart of the ranks, also within an attempt."`
	// Rendezvous is the generation that is open; nil: the attempt has none yet.
	Rendezvous *Rendezvous `json:"rendezvous,omitempty"`
	// From is what spec.checkpoint.from named when the task was made, or what was uploaded then.
	From *CheckpointOrigin `json:"from,omitempty" doc:"The checkpoint of another task, or the one that was uploaded, that it begins from while it has none that it saved."`
	// Restarts are the times of restarts within the policy's window.
	Restarts   []time.Time  `json:"restarts,omitempty"`
	PlacedAt   *time.Time   `json:"placedAt,omitempty"`
	StartedAt  *time.Time   `json:"startedAt,omitempty"`
	FinishedAt *time.Time   `json:"finishedAt,omitempty"`
	Replicas   ReplicaCount `json:"replicas,omitzero"`
	// Spares are those of its replicas that hold no rank.
	Spares []SpareStatus `json:"spares,omitempty" doc:"Replicas that stand by for one that is lost."`
	// Failure is the first replica that failed in the last attempt.
	Failure *ReplicaFailure `json:"failure,omitempty"`
	// Faults and Stragglers: see watch.go.
	Faults     []PastFault `json:"faults,omitempty" doc:"Failures within the restart window; at most the 32 newest."`
	Stragglers []Straggler `json:"stragglers,omitempty" doc:"Ranks that the others wait for; at most 8, the slowest first."`
	// ExitCode is what `fermi train run` ends with: 0, the first failing code, or 128+signal.
	ExitCode *int     `json:"exitCode,omitempty"`
	Zones    []string `json:"zones,omitempty" doc:"Where it runs or ran."`
	// Roles are those that start again by themselves; what stands above of attempts and generations
	// is about the others.
	Preflight *PreflightStatus `json:"preflight,omitempty" doc:"What the checks before the first start found."`
	Roles     []RoleStatus     `json:"roles,omitempty" doc:"Roles with restart: role, which have attempts and generations of their own."`
	Pace      *Pace            `json:"pace,omitempty" doc:"How fast it trains, as its ranks report; absent where they don't."`
	Use       *Use             `json:"use,omitempty" doc:"What it uses, as its launchers see it."`
	// Intervals are of memory first, then the tiers; each by itself.
	Intervals []SaveInterval `json:"intervals,omitempty" doc:"Tasks with checkpoint.auto: how often they save, and why; absent until steps were timed."`
	TaskFigures
	// InUseBy is who trains inside this task: an environment with ranks is never idle.
	InUseBy string `json:"inUseBy,omitempty" doc:"The task whose processes run inside this one; stopping or deleting this one ends it."`
}

// PreflightStatus is the checks of a placement.
type PreflightStatus struct {
	StartedAt  time.Time            `json:"startedAt"`
	FinishedAt *time.Time           `json:"finishedAt,omitempty" doc:"Absent while they run."`
	Pairs      int                  `json:"pairs,omitempty" doc:"Connections that went well."`
	LatencyMs  float64              `json:"latencyMs,omitempty" doc:"The longest round trip; absent where none was measured."`
	Rate       Bytes                `json:"rate,omitempty" doc:"The lowest, a second."`
	Devices    string               `json:"devices,omitempty" enum:"computed,tested,virtual,untested" doc:"computed: the task's own PyTorch did a short computation on each, or on the processors, whose result is known. tested: only the driver was asked whether each is there, and for memory errors. virtual: there is nothing to test. untested: there was no driver to ask. Absent where there are none."`
	Versions   map[string]string    `json:"versions,omitempty" doc:"What the replicas that start with the task have in common; those that join later must have it too."`
	Findings   []PreflightFinding   `json:"findings,omitempty" doc:"What does not hold, causes first; at most 20."`
	OneMachine int                  `json:"oneMachine,omitempty" doc:"Pairs whose nodes are two, but on one machine: how long their round trips took says nothing of a network and is not counted."`
	Crossings  []roundtrip.Crossing `json:"crossings,omitempty" doc:"Between which zones it runs, by name; at most 32."`
}

// What the preflight did about devices.
const (
	DevicesComputed = "computed"
	DevicesTested   = "tested"
	DevicesVirtual  = "virtual"
	DevicesUntested = "untested"
)

// PreflightFinding is something that does not hold.
type PreflightFinding struct {
	Field   string     `json:"field" doc:"port, pair, answer, device, disk, sharedMemory, image, python, torch, cuda, driver …"`
	Message fault.Text `json:"message"`
}

// RoleStatus is a role that starts again by itself.
type RoleStatus struct {
	Name       string      `json:"name"`
	Attempt    int         `json:"attempt"`
	Generation int         `json:"generation,omitempty"`
	Rendezvous *Rendezvous `json:"rendezvous,omitempty"`
}

// Role is the status of a role that starts again by itself; nil for others.
func (s *TrainingTaskStatus) Role(name string) *RoleStatus {
	for i := range s.Roles {
		if s.Roles[i].Name == name {
			return &s.Roles[i]
		}
	}
	return nil
}

// AttemptOf is the number in the names of a role's replicas.
func (s *TrainingTaskStatus) AttemptOf(role string) int {
	if r := s.Role(role); r != nil {
		return r.Attempt
	}
	return s.Attempt
}

// Rendezvous is what all members of a generation are told alike, also by another leader.
type Rendezvous struct {
	Members string `json:"members" doc:"Hash of which replica has which ranks."`
	Lead    string `json:"lead" doc:"host:port of rank 0."`
	World   int    `json:"world" doc:"Ranks in all."`
	Restore int64  `json:"restore,omitempty" doc:"The step it went on from; absent: the beginning."`
	// Origin is where the step lies; nil: in the memory of the ranks' launchers.
	Origin *CheckpointOrigin `json:"origin,omitempty" doc:"The checkpoint that the step was read from; absent: memory."`
	Ports  []int             `json:"ports,omitempty" doc:"Where its processes listen, in rank order; absent where the framework does not ask."`
	Hosts  []string          `json:"hosts,omitempty" doc:"The addresses of its replicas, in rank order, where they have their own and the framework asks."`
	// Below tells members of the generation from replicas that came after it was opened.
	Below map[string]int `json:"below,omitempty" doc:"Elastic tasks and tasks with spares: by role, the index below which replicas are members."`
	// What follows is of tasks with spares.
	Aside  []int  `json:"aside,omitempty" doc:"Indexes below that which are no members: spares, and who was replaced."`
	Stead  []Seat `json:"stead,omitempty" doc:"Members that took the place of a lost one, in its ranks."`
	Vacant []int  `json:"vacant,omitempty" doc:"Places of members that were lost since it was opened; spares take them."`
	Left   []int  `json:"left,omitempty" doc:"Indexes of replicas that were replaced for a fault of their node; they are ended."`
	// Seats is who has which ranks, where states are kept by rank in others' memory.
	Seats []int `json:"seats,omitempty" doc:"Tasks with checkpoint.peer: the indexes of its replicas, role by role, in the order of their ranks."`
}

// Seat is a replica's place in the order of ranks.
type Seat struct {
	Index int `json:"index"`
	Place int `json:"place" doc:"Counted from 0, in replicas."`
}

// SpareStatus is a replica that stands by.
type SpareStatus struct {
	Index int        `json:"index"`
	Node  string     `json:"node"`
	State SpareState `json:"state" enum:"starting,ready,warm,leaving" doc:"ready: it could take a place at once. warm: by a fork of its interpreter, whose imports are done. leaving: it was replaced, and ends."`
}

// SpareState is how far a spare is.
type SpareState string

// The states.
const (
	SpareStarting SpareState = "starting"
	SpareReady    SpareState = "ready"
	SpareWarm     SpareState = "warm"
	SpareLeaving  SpareState = "leaving"
)

// Standing is how many spares could take a place at once.
func (s *TrainingTaskStatus) Standing() (n int) {
	for i := range s.Spares {
		if state := s.Spares[i].State; state == SpareReady || state == SpareWarm {
			n++
		}
	}
	return n
}

// ReplicaCount counts the replicas of the current attempt, without spares.
type ReplicaCount struct {
	Total     int `json:"total,omitempty"`
	Starting  int `json:"starting,omitempty"`
	Running   int `json:"running,omitempty"`
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// ReplicaFailure names the guilty replica.
type ReplicaFailure struct {
	Replica  string     `json:"replica"`
	Role     string     `json:"role"`
	Index    int        `json:"index"`
	Rank     *int       `json:"rank,omitempty" doc:"Of the process; absent where the whole replica failed."`
	Node     string     `json:"node"`
	ExitCode int        `json:"exitCode"`
	Signal   string     `json:"signal,omitempty"`
	Reason   string     `json:"reason" doc:"ExitedNonZero, Signaled, OutOfMemory, LauncherLost, StartFailed, TimedOut …"`
	Message  fault.Text `json:"message,omitzero"`
	At       time.Time  `json:"at,omitzero"`
	// What follows is the diagnosis: docs/reference/faults.md.
	Cause       string     `json:"cause,omitempty" doc:"Id of a cause, such as python-error, killed, hang."`
	Action      string     `json:"action,omitempty" doc:"restart, swap (to another node) or stop."`
	Line        string     `json:"line,omitempty" doc:"The line of its log that decided."`
	Advice      fault.Text `json:"advice,omitzero"`
	Step        int64      `json:"step,omitempty" doc:"That it reported last."`
	Generation  int        `json:"generation,omitempty" doc:"In which it failed."`
	Fingerprint string     `json:"fingerprint,omitempty" doc:"Equal for the same failure."`
}
