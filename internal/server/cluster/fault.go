package cluster

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// NodeFaultWish is a fault that a device shall be taken to have.
type NodeFaultWish struct {
	Device int    `json:"device" doc:"By index, from 0."`
	Kind   string `json:"kind" doc:"lost, silent, ecc, pages, rows, recovery, throttle, nvlink, pcie, or xid-N."`
	Heal   bool   `json:"heal,omitempty" doc:"The fault is over when the device is tested, so that it returns; else it is kept out."`
}

func (s *Nodes) faultRoute(reg *rest.Schemas, row api.KindInfo) *rest.Route {
	return &rest.Route{
		Method: http.MethodPost, Path: rest.Prefix + "/nodes/{name}/fault", ID: "faultNode", Tag: row.Plural, Kind: row.Kind, Verb: "fault",
		Summary: "Drill: act as if a device had this fault. It is closed, what runs on it saves and leaves, it is tested, and returns or is kept out.",
		Data:    reg.Kind(row), Body: &rest.BodySpec{Schema: rest.SchemaOf[NodeFaultWish](reg), Media: rest.JsonMedia, Required: true},
		Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
			var wish NodeFaultWish
			if err := c.ReadJSON(&wish, "device, kind, heal"); err != nil {
				return nil, err
			}
			if _, xid := card.XidOf(wish.Kind); !xid && !slices.Contains(card.FaultKinds, wish.Kind) {
				return nil, refuse.Invalid("kind", fault.T("One of %s, or xid-N with a number up to 999.", "必须是 %s 之一，或 xid-N（N 不超过 999）。", strings.Join(card.FaultKinds, ", ")))
			}
			return s.write(ctx, c, row, func(node, next *api.Node) (string, fault.Text, error) {
				if wish.Device < 0 || wish.Device >= len(node.Spec.Devices) {
					return "", fault.Text{}, refuse.Invalid("device", fault.T("%s has %d [device|devices], numbered from 0.", "%s 有 %d 张卡，编号从 0 开始。", node.Meta.Name, len(node.Spec.Devices)))
				}
				next.Spec.DeviceOrders = card.Give(node.Spec.DeviceOrders, card.DeviceOrder{
					Device: wish.Device, Order: card.OrderFault, Kind: wish.Kind, Heal: wish.Heal, At: after(node, wish.Device, s.clock.Now().UTC()),
				})
				return "FaultInjected", fault.T("Asked for: %s of device %d.", "已请求：%s，加速卡 %d。", wish.Kind, wish.Device), nil
			})
		},
	}
}

// give writes an order down for a device, or for all that health closed. A test of one that takes work is refused; so is one of a
// node where none is closed.
func give(order string, node, next *api.Node, device int, now time.Time) error {
	if order == "" || order == card.OrderReturn && device < 0 {
		return nil // a node that is let in keeps its bad devices out
	}
	given := false
	for _, h := range node.Status.Devices {
		if h.Closed() && (device < 0 || h.Device == device) {
			next.Spec.DeviceOrders = card.Give(next.Spec.DeviceOrders, card.DeviceOrder{Device: h.Device, Order: order, At: after(node, h.Device, now)})
			given = true
		}
	}
	if order == card.OrderTest && !given {
		return fault.New(fault.Conflict, "NothingClosed", fault.T("No such device of %s is closed for a fault; only those are tested.", "%s 没有因故障停用的对应加速卡，无需检测。", node.Meta.Name))
	}
	return nil
}

// after is a time later than that of the device's last order, whatever the clock says.
func after(node *api.Node, device int, now time.Time) time.Time {
	if o := card.OrderOf(node.Spec.DeviceOrders, device); o != nil && !now.After(o.At) {
		return o.At.Add(time.Microsecond)
	}
	return now
}
