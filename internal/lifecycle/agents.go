package lifecycle

import (
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/internal/lifecycle/reason"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/repository/agent"
)

// runAgents has the repository agents of a model take its files as they are, or put
// others in their place: those of a moved model are loaded with the configuration that
// named the agents.
func (m *maker) runAgents(p *plan, d *draft.Draft) error {
	agents := d.Agents()
	if len(agents) == 0 {
		return nil
	}
	s, view := p.snapshot, d.View()
	directory, err := filepath.Abs(s.Directory)
	if err != nil {
		return err
	}
	chain, err := m.agents.Load(m.ctx, &agent.Model{
		Name: s.Name, Agents: agents, Directory: directory, Config: view.JSON(), Read: readConfig, Limits: view.Parameters,
		BuiltIn: p.bare,
	})
	if err != nil {
		return reason.Refused{Err: err}
	}
	s.Agents = chain
	if chain.Directory() == directory {
		return nil
	}
	if !s.Renamed && d.Name() != "" {
		if err := d.CheckDirectory(filepath.Base(directory)); err != nil {
			return err
		}
	}
	return s.Move(chain.Directory(), m.log)
}

// readConfig returns the configuration in a directory that an agent has filled as JSON,
// nil where it has none that can be read.
func readConfig(directory string) []byte {
	text, err := os.ReadFile(filepath.Join(directory, "config.pbtxt"))
	if err != nil {
		return nil
	}
	d, err := draft.Parse(text, "config.pbtxt")
	if err != nil {
		return nil
	}
	return d.View().JSON()
}

// agentsOf returns the agents of what serves under a name.
func (m *Manager) agentsOf(name string) *agent.Chain {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.models.entries[name]; e != nil && e.snapshot != nil {
		return e.snapshot.Agents
	}
	return nil
}
