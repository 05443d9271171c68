package main

import "github.com/spf13/cobra"

func (a *app) trainEncoderCommand() *cobra.Command { return &cobra.Command{Use: "encoder"} }
