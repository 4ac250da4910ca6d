package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Submitted is the answer to a new training task: its true state at that moment.
type Submitted struct {
	TaskID          string            `json:"taskId"`
	Name            string            `json:"name"`
	Status          string            `json:"status"`
	DistributedInfo *DistributedInfo  `json:"distributedInfo,omitempty"`
	Task            *api.TrainingTask `json:"task,omitempty"`
}

// DistributedInfo sums up a task of several replicas.
type DistributedInfo struct {
	NodeCount  int    `json:"nodeCount"`
	TotalGPUs  int    `json:"totalGpus"`
	MasterNode string `json:"masterNode"`
	Framework  string `json:"framework"`
}

// Submit makes a training task.
func (c tasks) Submit(ctx context.Context, task *api.TrainingTask, dryRun bool) (Submitted, error) {
	var out Submitted
	err := c.wire.write(ctx, http.MethodPost, "/training-tasks", dry(task.Meta.Project, dryRun), task, &out)
	return out, err
}

// Preview says where a task would stand if it were submitted now, and at what price. Fault
// Unavailable where the server does not lead.
func (c tasks) Preview(ctx context.Context, task *api.TrainingTask) (api.Preview, error) {
	var out api.Preview
	err := c.wire.write(ctx, http.MethodPost, "/placements/preview", inProject(task.Meta.Project), task, &out)
	return out, err
}

// PreviewExisting says what running environments would be together as the nodes of a training.
func (c tasks) PreviewExisting(ctx context.Context, project string, r api.ExistingRequest) (api.ExistingPreview, error) {
	var out api.ExistingPreview
	err := c.wire.write(ctx, http.MethodPost, "/training-tasks/existing/preview", inProject(project), r, &out)
	return out, err
}

// Recipe is what the framework makes of a task: environment, files and commands.
func (c tasks) Recipe(ctx context.Context, task *api.TrainingTask) (api.Recipe, error) {
	var out api.Recipe
	err := c.wire.write(ctx, http.MethodPost, "/training-tasks/recipe", inProject(task.Meta.Project), task, &out)
	return out, err
}

func taskPath(name, verb string) (string, error) {
	p, err := objectPath(api.KindTrainingTask, name)
	return p + "/" + verb, err
}

// Stop asks a task to end; it keeps its outputs.
func (c tasks) Stop(ctx context.Context, project, name string, opts ...Option) error {
	p, err := taskPath(name, "stop")
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodPost, p, inProject(project, opts...), nil, nil)
}

// MoveWish is where a running task is to go: into a zone, onto some nodes, or both.
type MoveWish struct {
	Zone    string   `json:"zone,omitempty"`
	Nodes   []string `json:"nodes,omitempty"`
	Away    []string `json:"away,omitempty"` // not onto these
	Preview bool     `json:"preview,omitempty"`
}

// Move asks a running task to go elsewhere, or with Preview only what that would mean. Where there
// is no such place the fault says why, and the task goes on.
func (c tasks) Move(ctx context.Context, project, name string, wish MoveWish) (api.Move, error) {
	var out api.Move
	p, err := taskPath(name, "move")
	if err != nil {
		return out, err
	}
	err = c.wire.write(ctx, http.MethodPost, p, inProject(project), wish, &out)
	return out, err
}

// Probe is what was done to a rank, or seen of it.
type Probe struct {
	Rank       int       `json:"rank"`
	Kind       string    `json:"kind"`
	Replica    string    `json:"replica"`
	Node       string    `json:"node"`
	Generation int       `json:"generation"`
	At         time.Time `json:"at"`
	Text       string    `json:"text,omitempty"`
}

// Fault hurts a rank of a running task: kill, stop, slow, oom, net or node.
func (c tasks) Fault(ctx context.Context, project, name string, rank int, kind string) (Probe, error) {
	return c.probe(ctx, project, name, "fault", map[string]any{"rank": rank, "kind": kind})
}

// Profile shows what a rank does at this moment.
func (c tasks) Profile(ctx context.Context, project, name string, rank int) (Probe, error) {
	return c.probe(ctx, project, name, "profile", map[string]any{"rank": rank})
}

func (c tasks) probe(ctx context.Context, project, name, verb string, body any) (out Probe, err error) {
	p, err := taskPath(name, verb)
	if err != nil {
		return out, err
	}
	err = c.wire.write(ctx, http.MethodPost, p, inProject(project), body, &out)
	return out, err
}

// Clone submits the same work again under a new name ("": made by the server).
func (c tasks) Clone(ctx context.Context, project, name, newName, displayName string) (Submitted, error) {
	var out Submitted
	p, err := taskPath(name, "clone")
	if err != nil {
		return out, err
	}
	in := struct {
		Name        string `json:"name,omitempty"`
		DisplayName string `json:"displayName,omitempty"`
	}{newName, displayName}
	err = c.wire.write(ctx, http.MethodPost, p, inProject(project), in, &out)
	return out, err
}

// Explanation says why a task is where it is.
type Explanation struct {
	Reason         string     `json:"reason"`
	Message        Text       `json:"message"`
	Evidence       []Text     `json:"evidence,omitempty"`
	EstimatedStart *time.Time `json:"estimatedStart,omitempty"`
	Action         Text       `json:"action,omitzero"`
	// Moves are running tasks that could move, after which it starts.
	Moves []api.TaskMove `json:"moves,omitempty"`
}

// MarshalJSON writes both languages once.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.EN == t.ZH {
		return json.Marshal(t.EN)
	}
	return json.Marshal(fault.Text(t))
}

// Why asks what a task waits for, or why it ended as it did.
func (c *Client) Why(ctx context.Context, project, name string) (Explanation, error) {
	return whyOf(ctx, c, api.KindTrainingTask, project, name)
}

// WhyOf explains work of any kind, called NAME or KIND/NAME. Of one name tasks come first.
func WhyOf(ctx context.Context, c *Client, project, name string) (Explanation, error) {
	word, rest, named := strings.Cut(name, "/")
	if !named {
		word, rest = "", name
	}
	word = strings.ToLower(word)
	none := error(fault.New(fault.NotFound, "NotFound", fault.T("There is no kind of work called %q.", "没有名为 %q 的工作负载类型。", word)))
	for _, kind := range append([]api.Kind{api.KindTrainingTask}, api.WorkKinds()...) {
		row := api.MustInfo(kind)
		if !row.Users || word != "" && word != row.Singular && word != row.Plural && word != strings.ToLower(string(kind)) && !slices.Contains(row.Aliases, word) {
			continue
		}
		out, err := whyOf(ctx, c, kind, project, rest)
		if !fault.Is(err, fault.NotFound) {
			return out, err
		}
		if kind == api.KindTrainingTask || word != "" {
			none = err
		}
	}
	return Explanation{}, none
}

func whyOf(ctx context.Context, c *Client, kind api.Kind, project, name string) (out Explanation, err error) {
	p, err := objectPath(kind, name)
	if err == nil {
		err = c.read(ctx, p+"/why", inProject(project), &out)
	}
	return out, err
}

// UsageOptions select sums of usage.
type UsageOptions struct {
	By       string // project, user, task, zone or device
	Project  string
	From, To string // RFC 3339, or a duration back from now
	Limit    int
}

// UsageSum is what one key used.
type UsageSum struct {
	Key         string           `json:"key"`
	Name        string           `json:"name,omitempty"`
	Replicas    int              `json:"replicas"`
	Running     int              `json:"running"`
	DeviceHours float64          `json:"deviceHours"`
	CoreHours   float64          `json:"coreHours"`
	MemoryGBh   float64          `json:"memoryGiBHours"`
	Costs       []api.PriceTotal `json:"costs"`
	KWh         float64          `json:"kwh"`
	Grams       *float64         `json:"grams,omitempty"` // nil where a zone did not say how clean its power is
	EnergyBasis string           `json:"energyBasis"`     // estimated
}

// Usage is sums over a span of time.
type Usage struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	By       string     `json:"by"`
	Items    []UsageSum `json:"items"`
	Total    UsageSum   `json:"total"`
	Crossing string     `json:"crossingTraffic"` // not measured
}

// Usage adds up who used how much.
func (c tasks) Usage(ctx context.Context, o UsageOptions) (Usage, error) {
	q := inProject(o.Project)
	set(q, "by", o.By)
	set(q, "from", o.From)
	set(q, "to", o.To)
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	var out Usage
	err := c.wire.read(ctx, "/usage", q, &out)
	return out, err
}

// Capacity is what there is of one device type.
type Capacity struct {
	Type     string  `json:"type"`
	Total    float64 `json:"total"`
	Used     float64 `json:"used"`
	Free     float64 `json:"free"`
	Cordoned float64 `json:"cordoned"`
	Stranded float64 `json:"stranded"`
	Largest  int     `json:"largestGang"`
}

// Capacity lists all device types.
func (c tasks) Capacity(ctx context.Context) ([]Capacity, error) {
	var out struct {
		Items []Capacity `json:"items"`
	}
	err := c.wire.read(ctx, "/capacity", nil, &out)
	return out.Items, err
}

// Shares lists how every queue stands.
func (c tasks) Shares(ctx context.Context) ([]api.QueueShare, error) {
	var out struct {
		Items []api.QueueShare `json:"items"`
	}
	err := c.wire.read(ctx, "/shares", nil, &out)
	return out.Items, err
}

// Share is how one queue stands, with who waits and runs in it.
func (c tasks) Share(ctx context.Context, queue string) (api.QueueShare, error) {
	var out api.QueueShare
	err := c.wire.read(ctx, "/shares/"+url.PathEscape(queue), nil, &out)
	return out, err
}

// Outage says where the tasks of a zone would go if it were lost now.
func (c tasks) Outage(ctx context.Context, zone string) (out api.Outage, err error) {
	err = c.wire.read(ctx, "/zones/"+url.PathEscape(zone)+"/outage", nil, &out)
	return out, err
}

// PreviewDrain says where the tasks of a node would go if it, or with a device from 0 on only that, were drained now.
func (c tasks) PreviewDrain(ctx context.Context, node string, device int) (out api.Outage, err error) {
	q := url.Values{}
	if device >= 0 {
		q.Set("device", strconv.Itoa(device))
	}
	err = c.wire.read(ctx, "/nodes/"+url.PathEscape(node)+"/drain", q, &out)
	return out, err
}

// Replica is one launcher's part of a task.
type Replica struct {
	Name     string     `json:"name"`
	Role     string     `json:"role"`
	Index    int        `json:"index"`
	Attempt  int        `json:"attempt,omitempty"`
	Node     string     `json:"node"`
	Zone     string     `json:"zone,omitempty"`
	Devices  int        `json:"devices,omitempty"`
	State    string     `json:"state,omitempty"`
	Attached bool       `json:"attached,omitempty"` // its launcher is connected to a server
	Spare    string     `json:"spare,omitempty"`    // it stands by: starting, ready, warm or leaving; "": it has ranks
	Reason   string     `json:"reason,omitempty"`
	Message  string     `json:"message,omitempty"`
	Signal   string     `json:"signal,omitempty"`
	ExitCode *int       `json:"exitCode,omitempty"`
	Started  *time.Time `json:"startedAt,omitempty"`
	Finished *time.Time `json:"finishedAt,omitempty"`
}

// Replicas lists where a task's parts run or ran.
func (c tasks) Replicas(ctx context.Context, project, name string) ([]Replica, error) {
	p, err := taskPath(name, "replicas")
	if err != nil {
		return nil, err
	}
	var page struct {
		Items []Replica `json:"items"`
	}
	err = c.wire.read(ctx, p, inProject(project), &page)
	return page.Items, err
}

// Output is one file that a task left.
type Output struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// Outputs lists the files a task left.
func (c tasks) Outputs(ctx context.Context, project, name string) ([]Output, error) {
	p, err := taskPath(name, "outputs")
	if err != nil {
		return nil, err
	}
	var all []Output
	for q := inProject(project); ; {
		var page struct {
			Items []Output `json:"items"`
			Next  string   `json:"next"`
		}
		if err := c.wire.read(ctx, p, q, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || page.Next == q.Get("cursor") {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// OutputPart says what is read of an output, and how.
type OutputPart struct {
	From       int64     // the first byte
	Unmodified time.Time // refuse a file that changed since; zero: any
	Unverified bool      // take the bytes as they are, damaged or not
}

// OpenOutput reads one of them, or the first part that is named; the caller closes it. Size is -1 when unknown. The server verifies what it sends: damaged
// bytes are refused with the reason Damaged, or, where the answer has begun, the connection is cut; who then asks for the
// rest hears the reason.
func (c tasks) OpenOutput(ctx context.Context, project, name, file string, parts ...OutputPart) (io.ReadCloser, int64, error) {
	p, err := taskPath(name, "outputs")
	if err != nil {
		return nil, 0, err
	}
	if file == "" || file != strings.TrimPrefix(path.Clean("/"+file), "/") {
		return nil, 0, fault.New(fault.Invalid, "BadPath", fault.T("%q is not the path of an output.", "%q 不是有效的输出文件路径。", file))
	}
	for part := range strings.SplitSeq(file, "/") {
		p += "/" + url.PathEscape(part)
	}
	var part OutputPart
	if len(parts) > 0 {
		part = parts[0]
	}
	q, header := inProject(project), http.Header{}
	if part.Unverified {
		q.Set("unverified", "true")
	}
	if part.From > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", part.From))
	}
	if !part.Unmodified.IsZero() {
		header.Set("If-Unmodified-Since", part.Unmodified.UTC().Format(http.TimeFormat))
	}
	var resp *http.Response
	err = c.wire.retry(ctx, func(context.Context) (err error) { // the body outlives a quick try
		resp, err = c.wire.send(ctx, request{method: http.MethodGet, path: p, query: q, header: header})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return resp.Body, resp.ContentLength, nil
}

// Event is something that happened to an object.
type Event struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    api.Kind  `json:"kind"`
	Project string    `json:"project,omitempty"`
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message Text      `json:"message"`
	Actor   string    `json:"actor,omitempty"`
}

// EventOptions select events, oldest first.
type EventOptions struct {
	Kind    api.Kind
	Project string
	Name    string // name or id
	After   int64  // Seq of the last one seen
	Limit   int
}

// Events reads what happened.
func (c tasks) Events(ctx context.Context, o EventOptions) ([]Event, error) {
	q := inProject(o.Project)
	set(q, "kind", string(o.Kind))
	set(q, "name", o.Name)
	if o.After > 0 {
		q.Set("after", strconv.FormatInt(o.After, 10))
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	var page struct {
		Items []Event `json:"items"`
	}
	err := c.wire.read(ctx, "/events", q, &page)
	return page.Items, err
}
