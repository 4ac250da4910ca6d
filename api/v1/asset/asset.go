package asset

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
)

// The kinds' names.
const (
	DatasetKind api.Kind = "Dataset"
	ModelKind   api.Kind = "Model"
	VersionKind api.Kind = "AssetVersion"
)

// Rows are their rows in the table of kinds.
var Rows = []api.KindInfo{
	{
		Kind: DatasetKind, Singular: "dataset", Plural: "datasets", Aliases: []string{"data"}, IDPrefix: "data", Project: true, Users: true,
		New: func() api.Object { return &Dataset{} },
	},
	{
		Kind: ModelKind, Singular: "model", Plural: "models", Aliases: []string{}, IDPrefix: "model", Project: true, Users: true,
		New: func() api.Object { return &Model{} },
	},
	{
		Kind: VersionKind, Singular: "asset-version", Plural: "asset-versions", Aliases: []string{}, IDPrefix: "ver", Project: true,
		New: func() api.Object { return &AssetVersion{} },
	},
}

// Dataset is a name under which versions of data are kept.
type Dataset struct {
	Meta   api.Meta    `json:"metadata"`
	Spec   DatasetSpec `json:"spec"`
	Status AssetStatus `json:"status,omitzero"`
}

// DatasetSpec is the user's wish.
type DatasetSpec struct {
	Description string `json:"description,omitempty" maxLength:"4096"`
	// Private is said when it is made, and stays so.
	Private bool `json:"private,omitempty" doc:"Only its owner sees and uses it; said when it is made, and not changed later."`
}

// Model is a name under which versions of a model are kept.
type Model struct {
	Meta   api.Meta    `json:"metadata"`
	Spec   ModelSpec   `json:"spec"`
	Status AssetStatus `json:"status,omitzero"`
}

// ModelSpec is the user's wish.
type ModelSpec struct {
	Description string            `json:"description,omitempty" maxLength:"4096"`
	Card        string            `json:"card,omitempty" maxLength:"65536" doc:"What people should know of it, as Markdown."`
	Signature   map[string]any    `json:"signature,omitempty" doc:"What it takes and gives, in words of its users' own."`
	Metadata    map[string]string `json:"metadata,omitempty"`
	// Aliases and Stages say what versions are for; both may be changed at any time.
	Aliases map[string]int   `json:"aliases,omitempty" doc:"Names of versions, such as champion."`
	Stages  map[string]Stage `json:"stages,omitempty" doc:"How far a version is, by its number; none when absent."`
}

// Stage is how far a version of a model is.
type Stage string

// The stages.
const (
	Staging    Stage = "staging"
	Production Stage = "production"
	Archived   Stage = "archived"
)

// Stages lists them.
var Stages = []Stage{Staging, Production, Archived}

// AssetStatus is what there is of it; the server writes it with each version.
type AssetStatus struct {
	Latest   int        `json:"latest,omitempty" doc:"Number of the newest version ever made; numbers are never used again."`
	Versions int        `json:"versions,omitempty" doc:"Versions that are there."`
	Size     api.Bytes  `json:"size,omitempty" doc:"Of the newest version."`
	Format   string     `json:"format,omitempty" doc:"Of the newest version of a model."`
	At       *time.Time `json:"at,omitempty" doc:"When the newest was made."`
}

// AssetVersion is one state of a dataset or model. It never changes.
type AssetVersion struct {
	Meta api.Meta    `json:"metadata"`
	Spec VersionSpec `json:"spec"`
}

// VersionSpec says which bytes it is, and where they come from.
type VersionSpec struct {
	Kind     api.Kind          `json:"kind" enum:"Dataset,Model"`
	Asset    string            `json:"asset" doc:"Name of the dataset or model."`
	AssetID  string            `json:"assetId"`
	Number   int               `json:"number"`
	Manifest string            `json:"manifest" doc:"BLAKE3 of the list of its files."`
	Files    int               `json:"files"`
	Size     api.Bytes         `json:"size"`
	New      api.Bytes         `json:"new" doc:"Bytes that no version of the project had before."`
	Message  string            `json:"message,omitempty" maxLength:"4096"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Format   string            `json:"format,omitempty" doc:"Of a model, read from its bytes: safetensors, torch, onnx, savedmodel, gguf, json; unknown otherwise."`
	Source   *Source           `json:"source,omitempty" doc:"Where the bytes lie, of a version by reference."`
	Origin   *Origin           `json:"origin,omitempty" doc:"What it was made from."`
	Private  bool              `json:"private,omitempty" doc:"As its dataset is: its owner's alone."`
}

// IsPrivate says that a dataset is its owner's alone.
func (d *Dataset) IsPrivate() bool { return d.Spec.Private }

// IsPrivate says that the version is of such a dataset.
func (v *AssetVersion) IsPrivate() bool { return v.Spec.Private }

// IsPrivate says that an object is its owner's alone.
func IsPrivate(o api.Object) bool {
	x, ok := o.(interface{ IsPrivate() bool })
	return ok && x.IsPrivate()
}

// Source is where the bytes of a version by reference lie.
type Source = mount.Source

// S3Source is a prefix of a bucket.
type S3Source = mount.S3Source

// Origin is what a version was made from.
type Origin struct {
	Task       string      `json:"task,omitempty" doc:"Name of the task that made it."`
	TaskID     string      `json:"taskId,omitempty"`
	Checkpoint int64       `json:"checkpoint,omitempty" doc:"Step of the task's checkpoint that it is."`
	Datasets   []VersionAt `json:"datasets,omitempty" doc:"What that task read."`
	Models     []VersionAt `json:"models,omitempty" doc:"Likewise: what it began from, or answered with."`
	Imported   *Source     `json:"imported,omitempty" doc:"Where the bytes were read from, once."`
}

// VersionAt names a version of a dataset or model of the same project.
type VersionAt struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// Kind is Dataset.
func (*Dataset) Kind() api.Kind { return DatasetKind }

// GetMeta is the metadata.
func (d *Dataset) GetMeta() *api.Meta { return &d.Meta }

// State is what there is of it.
func (d *Dataset) State() *AssetStatus { return &d.Status }

// Kind is Model.
func (*Model) Kind() api.Kind { return ModelKind }

// GetMeta is the metadata.
func (m *Model) GetMeta() *api.Meta { return &m.Meta }

// State is what there is of it.
func (m *Model) State() *AssetStatus { return &m.Status }

// Kind is AssetVersion.
func (*AssetVersion) Kind() api.Kind { return VersionKind }

// GetMeta is the metadata.
func (v *AssetVersion) GetMeta() *api.Meta { return &v.Meta }

// Asset is a dataset or a model.
type Asset interface {
	api.Object
	State() *AssetStatus
}

// VersionName is the name of the object that is a version. An asset's name is short enough for it.
func VersionName(kind api.Kind, name string, number int) string {
	return api.MustInfo(kind).IDPrefix + "-" + name + "-" + strconv.Itoa(number)
}

// Latest is the version of who names none: the newest.
const Latest = "latest"

// KindOf is the kind that a list of a workload's names.
func KindOf(isModel bool) api.Kind {
	if isModel {
		return ModelKind
	}
	return DatasetKind
}
