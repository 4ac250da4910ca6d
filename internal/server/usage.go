package server

import (
	"context"
	"net/http"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// usageSum is what one key used, in hours, as people are charged.
type usageSum struct {
	Key         string  `json:"key" doc:"Name of the project, user, zone or device type; id of the task."`
	Name        string  `json:"name,omitempty" doc:"Of a task."`
	Replicas    int     `json:"replicas"`
	Running     int     `json:"running" doc:"How many of the replicas still run; they count up to now."`
	DeviceHours float64 `json:"deviceHours"`
	CoreHours   float64 `json:"coreHours"`
	MemoryGBh   float64 `json:"memoryGiBHours"`
	Cost        float64 `json:"cost" doc:"At the price of the time the replica ran."`
}

type usageList struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	By    string     `json:"by"`
	Items []usageSum `json:"items"`
}

const usageSpan = 30 * 24 * time.Hour

func (s *Server) usageRoutes(reg *schemas) []*route {
	by := param{name: "by", fallback: string(history.UsageByProject), doc: "What to add up by."}
	for _, k := range history.UsageKeys {
		by.enum = append(by.enum, string(k))
	}
	return []*route{{
		method: http.MethodGet, path: prefix + "/usage", id: "sumUsage", summary: "Who used how much, and what it cost.", tag: "usage",
		query: []param{
			by, {name: "project", doc: "Only this project; all that you may see when absent."},
			{name: "from", form: formTime, doc: "RFC 3339, or how long ago; 30 days ago when absent."},
			{name: "to", form: formTime, doc: "RFC 3339, or how long ago; now when absent."},
			{name: "limit", form: formInt, min: 1, max: 1000, fallback: "100"},
		},
		data: schemaOf[usageList](reg), handle: s.sumUsage,
	}}
}

func (s *Server) sumUsage(ctx context.Context, c *call) (*reply, error) {
	now := s.Clock.Now().UTC()
	q := history.UsageQuery{By: history.UsageKey(c.q.text("by")), From: c.q.moment("from", now), To: c.q.moment("to", now), Limit: int(c.q.number("limit"))}
	if q.To.IsZero() || q.To.After(now) {
		q.To = now // what still runs is not charged ahead
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-usageSpan)
	}
	if !q.From.Before(q.To) || q.From.Year() < 1970 {
		return nil, invalid("query.from", fault.T("from must lie before to and after 1970.", "from 必须早于 to 且晚于 1970 年。"))
	}
	var err error
	if q.Projects, err = s.usageProjects(ctx, c); err != nil {
		return nil, err
	}
	sums, err := s.History.SumUsage(ctx, q)
	if err != nil {
		return nil, err
	}
	out := usageList{From: q.From.UTC(), To: q.To.UTC(), By: string(q.By), Items: make([]usageSum, len(sums))}
	for i, u := range sums {
		out.Items[i] = usageSum{
			Key: u.Key, Replicas: u.Replicas, Running: u.Running, DeviceHours: u.Devices.Hours(),
			CoreHours: u.Cores.Hours(), MemoryGBh: u.MemoryGB, Cost: u.Cost,
		}
		if q.By == history.UsageByTask {
			out.Items[i].Name = s.taskName(ctx, u.Key)
		}
	}
	return &reply{data: out}, nil
}

// usageProjects are those the caller may see of those asked for; nil is all.
func (s *Server) usageProjects(ctx context.Context, c *call) ([]string, error) {
	if p := c.q.text("project"); p != "" {
		if !c.who.seesAll() {
			ok, err := s.memberOf(ctx, c.who, p)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, errNotMember(p)
			}
		}
		return []string{p}, nil
	}
	names, everything, err := s.projectsOf(ctx, c.who)
	if err != nil || everything {
		return nil, err
	}
	return append([]string{}, names...), nil
}

func errNotMember(project string) error {
	return fault.New(fault.Forbidden, "NotMember", fault.T(
		"The project %q does not exist, or you are not a member of it.", "项目 %q 不存在，或您不是其成员。", clip(project, 64)))
}

// taskName is "" for a task that was deleted.
func (s *Server) taskName(ctx context.Context, id string) string {
	if o, err := s.Store.GetByID(ctx, api.KindTrainingTask, id, 0); err == nil {
		return o.GetMeta().Name
	}
	if row, err := s.History.GetArchived(ctx, api.KindTrainingTask, "", id); err == nil {
		return row.Object.GetMeta().Name
	}
	return ""
}
