package service

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/cli/online"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func zones() *cobra.Command {
	var backups, serves []string
	var off, noWait, balance bool
	c := &cobra.Command{
		Use: "zones NAME [ZONE[=REPLICAS[:WEIGHT]]…]", Short: cli.Both("Say in which zones it stands and how they share requests, or show it", "设置或查看各可用区的副本与流量份额"), Args: cobra.MinimumNArgs(1),
		Example: "  fermi service zones chat beijing-1=4:80 shanghai-1=2:20 --backup shenzhen-1=1 --serves beijing-1=north,east\n  fermi service zones chat",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			balances := cmd.Flags().Changed("balance")
			if off || balances || len(args)+len(backups)+len(serves) > 1 {
				err := w.change(cmd.Context(), args[0], func(s *serving.ServiceSpec) (err error) {
					if off {
						s.Zones = nil
						level(s, false)
						return nil
					}
					if balances {
						level(s, balance)
					}
					s.Zones, err = stand(s.Zones, args[1:], backups, serves)
					return err
				})
				if err != nil {
					return err
				}
				if !noWait {
					if err := w.settled(cmd.Context(), args[0]); err != nil {
						return err
					}
				}
			}
			s, err := w.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !online.IsTable(cmd) {
				return online.Plainly(cmd, "service", args[0])
			}
			return w.stands(s)
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&backups, "backup", nil, cli.Both("ZONE[=REPLICAS] that gets requests only while no other zone answers; may be repeated", "备用可用区 ZONE[=REPLICAS]，仅在其他可用区都不可用时接收请求；可重复"))
	f.StringArrayVar(&serves, "serves", nil, cli.Both("ZONE=REGION,… whose requests it gets before others; may be repeated", "该可用区优先服务的区域 ZONE=REGION,…；可重复"))
	f.BoolVar(&balance, "balance", false, cli.Both("a zone that is nearly full gives requests to one that is less busy; --balance=false: only when it is full", "接近满载的可用区将部分请求转给较空闲的可用区；--balance=false 表示仅在满载时转出"))
	f.BoolVar(&off, "off", false, cli.Both("anywhere, all alike", "不再按可用区部署"))
	f.BoolVar(&noWait, "no-wait", false, cli.Both("don't wait until it is so", "不等待完成"))
	return c
}

// level says whether zones balance their requests.
func level(s *serving.ServiceSpec, balance bool) {
	switch {
	case balance && s.Gateway == nil:
		s.Gateway = &serving.ServiceGateway{Zones: serving.ZonesBalanced}
	case balance:
		s.Gateway.Zones = serving.ZonesBalanced
	case s.Gateway != nil:
		s.Gateway.Zones = ""
	}
}

// stand are zones as they were said. A zone that was there keeps what is not said; without zones, only regions change.
func stand(old []serving.ServiceZone, primary, backups, serves []string) (out []serving.ServiceZone, err error) {
	take := func(list []string, role serving.ZoneRole) {
		for _, text := range list {
			name, rest, _ := strings.Cut(text, "=")
			z := serving.ServiceZone{Zone: name}
			if i := slices.IndexFunc(old, func(o serving.ServiceZone) bool { return o.Zone == name }); i >= 0 {
				z = old[i]
			}
			z.Role = role
			if rest != "" {
				replicas, weight, weighs := strings.Cut(rest, ":")
				n, bad := strconv.Atoi(replicas)
				z.Replicas, z.Weight = n, 0
				if weighs && bad == nil {
					z.Weight, bad = strconv.Atoi(weight)
				}
				if bad != nil || n < 1 || weighs && z.Weight < 1 {
					err = fault.New(fault.Invalid, "BadZone", fault.T("%q is no zone with its replicas and weight, such as beijing-1=4:80.", "%q 不是合法的可用区、副本数与权重，例如 beijing-1=4:80。", text))
				}
			}
			out = append(out, z)
		}
	}
	take(primary, serving.ZonePrimary)
	take(backups, serving.ZoneBackup)
	if len(out) == 0 {
		out = slices.Clone(old)
	}
	for _, text := range serves {
		name, regions, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(out, func(z serving.ServiceZone) bool { return z.Zone == name })
		if i < 0 {
			return nil, fault.New(fault.Invalid, "BadZone", fault.T("--serves names %q, which is none of its zones.", "--serves 中的 %q 不在该服务的可用区中。", name))
		}
		if out[i].Serves = nil; regions != "" {
			out[i].Serves = strings.Split(regions, ",")
		}
	}
	return out, err
}

// stands shows what each zone has of a service.
func (w *where) stands(s *serving.InferenceService) error {
	if len(s.Spec.Zones) == 0 {
		_, err := fmt.Fprintln(w.Cmd.OutOrStdout(), fault.T("Its replicas stand anywhere: it names no zones.", "未指定可用区，副本可位于任意可用区。").In(w.Lang))
		return err
	}
	page, err := client.List[*serving.ServiceReplica](w.Cmd.Context(), w.Client, client.ListOptions{Project: s.Meta.Project, Limit: 500, Sort: "name"})
	if err != nil {
		return err
	}
	has, ready, sum := map[string]int{}, map[string]int{}, 0
	for _, r := range page.Items {
		if r.Spec.ServiceID != s.Meta.ID {
			continue
		}
		if has[r.Spec.Zone]++; r.Status.Ready {
			ready[r.Spec.Zone]++
		}
	}
	for _, z := range s.Spec.Zones {
		if z.Role != serving.ZoneBackup {
			sum += z.Weight
		}
	}
	var rows [][]string
	for _, z := range s.Spec.Zones {
		share, wanted := fault.T("backup", "备用").In(w.Lang), z.Replicas
		if z.Role != serving.ZoneBackup {
			if s.Spec.Autoscale != nil {
				wanted = has[z.Zone]
			}
			share = fmt.Sprintf("%d%%", (100*z.Weight+sum/2)/max(sum, 1))
		}
		rows = append(rows, []string{z.Zone, fmt.Sprintf("%d/%d", ready[z.Zone], wanted), share, strings.Join(z.Serves, ", ")})
	}
	return w.show(rows, fault.T("ZONE", "可用区"), fault.T("READY", "应答"), fault.T("REQUESTS", "流量"), fault.T("SERVES", "优先服务的区域"))
}
