"""What every client is told when it connects: enough to run the whole loop."""

INSTRUCTIONS = """\
kforge makes an unmodified PyTorch model faster: it captures the model's operators as cards, judges the kernels that \
you write for them, and exports the winners as a package.
The loop: 1. capture_model(entry='file.py:function') -> project_id and cards. 2. next_proposal() -> a lease, the \
parent's source or a seed, directions. 3. get_operator_card(card_id) -> reference source, argument names and types, \
the exact C signature. 4. submit_candidate(card_id, source, lease_id) -> compile, validate, benchmark in one call. \
5. Failed: repair what the message says and submit with the same lease_id. Else go to 2, until stop_reason. \
6. export_package(project_id, name). It takes cards of level function and module, not yet torch: \
next_proposal(card_id=...) keeps to a card of your choice.
status 'running' with a job_id means the work goes on: call job_status(job_id, wait_s=45), as often as needed.
A failed candidate is a normal result. The judge compares with a float64 oracle on fresh inputs: do not write for \
captured values, and do not try to influence the timing. Guides: kforge://guide/{loop,candidate,verdict,export}.
"""
