package history

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// RunOf is what finished work teaches; ran is how long it ran in all its attempts.
func RunOf(o api.Work, nodes int, ran time.Duration) Run {
	t := o.Workload()
	r := Run{
		TaskID: t.Meta.ID, Owner: t.Meta.Owner, Name: t.Meta.Project + "/" + cmp.Or(t.Meta.DisplayName, t.Meta.Name), Framework: string(t.Program.Framework),
		Work: workOf(&t), Nodes: nodes, Zones: t.Ran.Zones, Ran: ran, Declared: t.Wish.ExpectedTime.Std(), Succeeded: t.Phase == api.PhaseCompleted,
	}
	for _, role := range t.Roles {
		r.Devices += role.Placed() * role.Resources.Accelerators.Count
	}
	if r.Declared == 0 && t.Wish.Deadline != nil {
		r.Declared = max(t.Wish.Deadline.Sub(t.Meta.CreatedAt), 0)
	}
	if s := t.Ran; s.FinishedAt != nil {
		r.Ended = *s.FinishedAt
		if s.StartedAt != nil && t.Attempt == 1 {
			r.Last = max(s.FinishedAt.Sub(*s.StartedAt), 0)
		}
	}
	return r
}

// workOf names what is to be done: parameters, commands and what each replica gets, but not how many
// replicas there are.
func workOf(t *api.Workload) string {
	type part struct {
		Command, Args []string
		Accelerators  api.Accelerators
	}
	work := struct {
		Parameters map[string]any
		Roles      []part
	}{Parameters: t.Program.Parameters}
	for _, r := range t.Roles {
		work.Roles = append(work.Roles, part{r.Command, r.Args, r.Resources.Accelerators})
	}
	raw, err := json.Marshal(work)
	if err != nil {
		return "" // came as JSON, so this cannot be; no two such are compared
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Together is how long at least one of the replicas ran; rows are by start.
func Together(rows []UsageRow) (ran time.Duration) {
	var until time.Time
	for _, r := range rows {
		from := r.Start
		if from.Before(until) {
			from = until
		}
		if r.Stop.After(from) {
			ran += r.Stop.Sub(from)
			until = r.Stop
		}
	}
	return ran
}
