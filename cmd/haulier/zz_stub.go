package main

import "github.com/spf13/cobra"

func (p *program) jobsCommand() *cobra.Command    { return &cobra.Command{Use: "jobs"} }
func (p *program) queuesCommand() *cobra.Command  { return &cobra.Command{Use: "queues"} }
func (p *program) workersCommand() *cobra.Command { return &cobra.Command{Use: "workers"} }
func (p *program) tokenCommand() *cobra.Command   { return &cobra.Command{Use: "token"} }
func (p *program) benchCommand() *cobra.Command   { return &cobra.Command{Use: "bench"} }
