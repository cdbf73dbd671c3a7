"""The interface for agents: an MCP server whose tools are commands of ``rocelab``.

Begin at ``mcp``, the command. ``tool_catalogue`` has one entry for each tool. A call of a tool runs a command line in
a process of its own. So it runs where the fabric runs, can be ended, and cannot disturb the server::

    client -> mcp_server (the protocol) -> tool_catalogue (arguments -> command lines)
        -> tool_call (bounded in time and output) -> rocelab ... --json -> the same model as on a terminal
"""
